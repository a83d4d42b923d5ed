#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

struct sqlite3;
struct sqlite3_stmt;

// A thin layer over SQLite: prepared statements that are kept, bound arguments, and Results instead
// of return codes. It knows nothing of what is stored. One thread.

namespace mosaic::broker {

// The row that a query stands on; only valid during the visit.
class Row {
  public:
    explicit Row(sqlite3_stmt* statement) : statement_(statement) {}

    [[nodiscard]] std::string text(int column) const;  // NULL reads as empty
    [[nodiscard]] int64_t integer(int column) const;   // NULL reads as 0
    [[nodiscard]] bool is_null(int column) const;
    [[nodiscard]] std::optional<int64_t> integer_or_null(int column) const;

  private:
    sqlite3_stmt* statement_;
};

// Owns one connection. A resource: neither copied nor moved.
class Database {
  public:
    Database() = default;
    Database(const Database&) = delete;
    Database& operator=(const Database&) = delete;
    ~Database();

    // Opens an existing file. Errors name the path. Call once.
    [[nodiscard]] Result<void> open(const std::string& path);

    // Statements without arguments and rows, several at once, not kept: pragmas, the schema, BEGIN.
    [[nodiscard]] Result<void> script(const std::string& sql);

    // One statement that returns no rows. Arguments (text, int64_t, optional) are bound in order.
    template <class... Args>
    [[nodiscard]] Result<void> execute(std::string_view sql, const Args&... args) {
        return each(
            sql, [](const Row&) {}, args...);
    }

    // Calls `visit` with each row of one statement.
    template <class Visit, class... Args>
    [[nodiscard]] Result<void> each(std::string_view sql, Visit&& visit, const Args&... args) {
        MOSAIC_TRY_ASSIGN(sqlite3_stmt* const statement, prepare(sql));
        int index = 0;
        (bind(statement, ++index, args), ...);
        while (step(statement)) {
            visit(Row(statement));
        }
        return finish(statement);
    }

    // Rows written since the connection was opened: a change of it means that something was
    // written.
    [[nodiscard]] int64_t rows_written() const;
    [[nodiscard]] int64_t last_insert() const;
    // False when SQLite has rolled back by itself after an error, and outside of transactions.
    [[nodiscard]] bool in_transaction() const;

  private:
    [[nodiscard]] Result<sqlite3_stmt*> prepare(std::string_view sql);
    static void bind(sqlite3_stmt* statement, int index, std::string_view text);
    static void bind(sqlite3_stmt* statement, int index, int64_t number);
    static void bind(sqlite3_stmt* statement, int index, const std::optional<int64_t>& number);
    static bool step(sqlite3_stmt* statement);
    [[nodiscard]] Result<void> finish(sqlite3_stmt* statement);
    [[nodiscard]] tl::unexpected<Error> error() const;

    std::string path_;
    sqlite3* db_ = nullptr;
    std::map<std::string, sqlite3_stmt*, std::less<>> statements_;
};

}  // namespace mosaic::broker
