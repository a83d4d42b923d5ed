#include "broker/database.h"

#include <sqlite3.h>

namespace mosaic::broker {
namespace {

// Another process may hold the store for a moment: an operator's backup, or the broker of a host
// that has just died and whose own end is on its way.
constexpr int kBusyMs = 5000;

}  // namespace

std::string Row::text(int column) const {
    const unsigned char* bytes = sqlite3_column_text(statement_, column);
    if (bytes == nullptr) {
        return {};
    }
    return {reinterpret_cast<const char*>(bytes),
            static_cast<size_t>(sqlite3_column_bytes(statement_, column))};
}

int64_t Row::integer(int column) const {
    return sqlite3_column_int64(statement_, column);
}

bool Row::is_null(int column) const {
    return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}

std::optional<int64_t> Row::integer_or_null(int column) const {
    if (is_null(column)) {
        return std::nullopt;
    }
    return integer(column);
}

Database::~Database() {
    for (const auto& [sql, statement] : statements_) {
        sqlite3_finalize(statement);
    }
    sqlite3_close(db_);
}

Result<void> Database::open(const std::string& path) {
    path_ = path;
    // SQLite opens its files with O_CLOEXEC and, by NOFOLLOW, through no link.
    constexpr int kFlags =
        SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW | SQLITE_OPEN_EXRESCODE;
    if (sqlite3_open_v2(path.c_str(), &db_, kFlags, nullptr) != SQLITE_OK) {
        return error();
    }
    sqlite3_busy_timeout(db_, kBusyMs);
    return {};
}

Result<void> Database::script(const std::string& sql) {
    if (sqlite3_exec(db_, sql.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
        return error();
    }
    return {};
}

int64_t Database::rows_written() const {
    return sqlite3_total_changes64(db_);
}

int64_t Database::last_insert() const {
    return sqlite3_last_insert_rowid(db_);
}

bool Database::in_transaction() const {
    return sqlite3_get_autocommit(db_) == 0;
}

Result<sqlite3_stmt*> Database::prepare(std::string_view sql) {
    const auto kept = statements_.find(sql);
    if (kept != statements_.end()) {
        return kept->second;
    }
    sqlite3_stmt* statement = nullptr;
    if (sqlite3_prepare_v3(db_,
                           sql.data(),
                           static_cast<int>(sql.size()),
                           SQLITE_PREPARE_PERSISTENT,
                           &statement,
                           nullptr) != SQLITE_OK) {
        return error();
    }
    statements_.emplace(sql, statement);
    return statement;
}

// A failed bind (a string past SQLite's own limit of 1 GB) leaves NULL, which the schema's NOT NULL
// refuses. The null destructor means: the bytes stay where they are until finish().
void Database::bind(sqlite3_stmt* statement, int index, std::string_view text) {
    const char* bytes = text.data() != nullptr ? text.data() : "";
    sqlite3_bind_text64(statement, index, bytes, text.size(), nullptr, SQLITE_UTF8);
}

void Database::bind(sqlite3_stmt* statement, int index, int64_t number) {
    sqlite3_bind_int64(statement, index, number);
}

void Database::bind(sqlite3_stmt* statement, int index, const std::optional<int64_t>& number) {
    if (number) {
        sqlite3_bind_int64(statement, index, *number);
    } else {
        sqlite3_bind_null(statement, index);
    }
}

bool Database::step(sqlite3_stmt* statement) {
    return sqlite3_step(statement) == SQLITE_ROW;
}

Result<void> Database::finish(sqlite3_stmt* statement) {
    // reset repeats the error of the last step, if there was one.
    if (sqlite3_reset(statement) != SQLITE_OK) {
        auto problem = error();
        sqlite3_clear_bindings(statement);
        return problem;
    }
    sqlite3_clear_bindings(statement);
    return {};
}

tl::unexpected<Error> Database::error() const {
    const int code = sqlite3_errcode(db_) & 0xff;
    const bool bad_file = code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_FORMAT;
    Error out;
    out.code = bad_file ? Code::corrupt : Code::system;
    out.sys = bad_file ? 0 : sqlite3_system_errno(db_);
    out.text = path_ + ": " + sqlite3_errmsg(db_);
    return tl::unexpected<Error>(std::move(out));
}

}  // namespace mosaic::broker
