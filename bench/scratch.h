#pragma once

#include <string>

#include "base/error.h"

namespace mosaic::bench {

constexpr const char* kBusiness = "bench";

// A business of its own in a directory of its own, removed with everything in it at the end:
//   config/{system.json,businesses/bench.json,roles/worker.md}  ws/<instance>/  dataXXXXXX/
//   host.log plainXXXXXX/   what the baselines use instead of the data root (baseline.h)
// The business has `seats` instances s0, s1, ... on the script module, all launched by the human;
// the last `warm` of them have one warm seat each.
class Scratch {
  public:
    // Below `base`, which must not lie under /tmp.
    [[nodiscard]] static Result<Scratch> make(const std::string& base, int seats, int warm = 0);
    Scratch(Scratch&& other) noexcept;
    Scratch& operator=(Scratch&&) = delete;
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

    [[nodiscard]] const std::string& root() const { return root_; }

    [[nodiscard]] std::string data() const { return root_ + "/data" + mark(); }

    [[nodiscard]] std::string plain() const { return root_ + "/plain" + mark(); }

    [[nodiscard]] std::string home() const { return root_ + "/home"; }

    [[nodiscard]] std::string system_file() const { return root_ + "/config/system.json"; }

    [[nodiscard]] std::string business_file() const {
        return root_ + "/config/businesses/" + kBusiness + ".json";
    }

    [[nodiscard]] std::string host_log() const { return root_ + "/host.log"; }

    // Leaves the directory where it is, for a look at what went wrong.
    void keep() { keep_ = true; }

  private:
    explicit Scratch(std::string root) : root_(std::move(root)) {}

    [[nodiscard]] Result<void> fill(int seats, int warm) const;

    // What mkdtemp made the name unique with.
    [[nodiscard]] std::string mark() const { return root_.substr(root_.size() - 6); }

    std::string root_;
    bool keep_ = false;
};

[[nodiscard]] std::string seat_name(int index);

// Writes a file whole, mode 0600.
[[nodiscard]] Result<void> write_file(const std::string& path, const std::string& content);
[[nodiscard]] Result<void> make_directories(const std::string& path);

}  // namespace mosaic::bench
