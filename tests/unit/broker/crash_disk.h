#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

// A disk for SQLite that loses power, or on which operations fail. It keeps what was written apart
// from what was synced: at a crash each write since its file's last fsync is there, or gone, or cut
// short, each by chance and independently, and so is the creation of a file whose first fsync never
// came. Registered as SQLite's default VFS, so the product's code runs on it unchanged.

namespace mosaic::broker::test {

class CrashDisk {
  public:
    // One at a time; it stays SQLite's default until it is destroyed. Every connection must be
    // closed before that.
    CrashDisk();
    CrashDisk(const CrashDisk&) = delete;
    CrashDisk& operator=(const CrashDisk&) = delete;
    ~CrashDisk();

    // Power goes at the n-th operation that changes something (from 1): it and all later ones fail.
    void lose_power_at(uint64_t operation) { power_until_ = operations_ + operation; }

    [[nodiscard]] bool has_power() const { return operations_ < power_until_; }

    // Operations n to n + count - 1 (from 1) fail and change nothing; then the disk works again. A
    // full one says so of its writes, any other has I/O errors.
    void fail_at(uint64_t operation, uint64_t count, bool full) {
        fail_from_ = operations_ + operation;
        fail_until_ = fail_from_ + count;
        full_ = full;
        failed_ = 0;
    }

    void work_again() { fail_until_ = 0; }

    // Operations that failed since fail_at().
    [[nodiscard]] uint64_t failed() const { return failed_; }

    [[nodiscard]] bool is_full() const { return full_ && has_power(); }

    // What is on the disk when power is back: every unsynced write as `seed` decides.
    void restart(uint64_t seed);

    [[nodiscard]] uint64_t operations() const { return operations_; }

    // Syncs so far, to see that there are any.
    [[nodiscard]] uint64_t syncs() const { return syncs_; }

    // ---- for the VFS ----

    struct Write {
        uint64_t offset = 0;
        std::string bytes;
        bool truncates = false;  // to `offset`
    };

    struct File {
        std::string now;
        std::string synced;
        std::vector<Write> unsynced;
        bool exists = true;
        bool exists_synced = false;
        std::map<int, std::unique_ptr<std::string>> shared;  // the WAL's index: memory, not disk
    };

    [[nodiscard]] File* find(const std::string& path);
    File& create(const std::string& path);
    bool write(File& file, uint64_t offset, const char* bytes, size_t size);
    bool truncate(File& file, uint64_t size);
    bool sync(File& file);
    // `for_good`: its directory is synced, too.
    bool remove(const std::string& path, bool for_good);

  private:
    // False when there is no power for it, or it fails.
    bool operate();
    void sync_directory();

    std::map<std::string, File> files_;
    uint64_t operations_ = 0;
    uint64_t power_until_ = UINT64_MAX;
    uint64_t syncs_ = 0;
    uint64_t fail_from_ = 0;
    uint64_t fail_until_ = 0;
    uint64_t failed_ = 0;
    bool full_ = false;
};

}  // namespace mosaic::broker::test
