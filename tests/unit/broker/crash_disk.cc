#include "crash_disk.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

namespace mosaic::broker::test {
namespace {

CrashDisk* g_disk = nullptr;  // SQLite's callbacks get no place for it that fits

struct Handle {
    sqlite3_file base;
    CrashDisk::File* file;
};

CrashDisk::File& file_of(sqlite3_file* handle) {
    return *reinterpret_cast<Handle*>(handle)->file;
}

int verdict(bool done, int otherwise) {
    return done ? SQLITE_OK : otherwise;
}

void apply(std::string& content, const CrashDisk::Write& write, size_t bytes) {
    if (write.truncates) {
        content.resize(write.offset);
        return;
    }
    if (content.size() < write.offset + bytes) {
        content.resize(write.offset + bytes);
    }
    std::memcpy(content.data() + write.offset, write.bytes.data(), bytes);
}

// ---- sqlite3_io_methods ----

int close_file(sqlite3_file*) {
    return SQLITE_OK;
}

int read_file(sqlite3_file* handle, void* out, int amount, sqlite3_int64 offset) {
    const std::string& now = file_of(handle).now;
    const auto from = std::min(static_cast<size_t>(offset), now.size());
    const size_t size = std::min(static_cast<size_t>(amount), now.size() - from);
    std::memset(out, 0, static_cast<size_t>(amount));
    std::memcpy(out, now.data() + from, size);
    return size == static_cast<size_t>(amount) ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int write_file(sqlite3_file* handle, const void* bytes, int amount, sqlite3_int64 offset) {
    return verdict(g_disk->write(file_of(handle),
                                 static_cast<uint64_t>(offset),
                                 static_cast<const char*>(bytes),
                                 static_cast<size_t>(amount)),
                   g_disk->is_full() ? SQLITE_FULL : SQLITE_IOERR_WRITE);
}

int truncate_file(sqlite3_file* handle, sqlite3_int64 size) {
    return verdict(g_disk->truncate(file_of(handle), static_cast<uint64_t>(size)),
                   SQLITE_IOERR_TRUNCATE);
}

int sync_file(sqlite3_file* handle, int) {
    return verdict(g_disk->sync(file_of(handle)), SQLITE_IOERR_FSYNC);
}

int file_size(sqlite3_file* handle, sqlite3_int64* out) {
    *out = static_cast<sqlite3_int64>(file_of(handle).now.size());
    return SQLITE_OK;
}

// One process, one connection at a time: nobody to lock out.
int lock_file(sqlite3_file*, int) {
    return SQLITE_OK;
}

int is_reserved(sqlite3_file*, int* out) {
    *out = 0;
    return SQLITE_OK;
}

int control_file(sqlite3_file*, int, void*) {
    return SQLITE_NOTFOUND;
}

int sector_size(sqlite3_file*) {
    return 512;
}

int characteristics(sqlite3_file*) {
    return 0;
}

int map_shared(sqlite3_file* handle, int region, int size, int extend, void volatile** out) {
    auto& shared = file_of(handle).shared;
    if (shared[region] == nullptr && extend != 0) {
        shared[region] = std::make_unique<std::string>(static_cast<size_t>(size), '\0');
    }
    *out = shared[region] != nullptr ? shared[region]->data() : nullptr;
    return SQLITE_OK;
}

int lock_shared(sqlite3_file*, int, int, int) {
    return SQLITE_OK;
}

void barrier(sqlite3_file*) {}

int unmap_shared(sqlite3_file* handle, int) {
    file_of(handle).shared.clear();
    return SQLITE_OK;
}

const sqlite3_io_methods kMethods = {
    2,           close_file, read_file,    write_file,   truncate_file, sync_file,       file_size,
    lock_file,   lock_file,  is_reserved,  control_file, sector_size,   characteristics, map_shared,
    lock_shared, barrier,    unmap_shared, nullptr,      nullptr,
};

// ---- sqlite3_vfs ----

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* handle, int flags, int* flags_out) {
    handle->pMethods = nullptr;
    const std::string path = name != nullptr ? name : "a nameless file";
    CrashDisk::File* file = g_disk->find(path);
    if (file == nullptr) {
        // The store makes its file itself, in a real directory; here it begins when it is opened.
        file = &g_disk->create(path);
    }
    auto* out = reinterpret_cast<Handle*>(handle);
    out->file = file;
    out->base.pMethods = &kMethods;
    if (flags_out != nullptr) {
        *flags_out = flags;
    }
    return SQLITE_OK;
}

int delete_file(sqlite3_vfs*, const char* name, int sync_directory) {
    return verdict(g_disk->remove(name, sync_directory != 0), SQLITE_IOERR_DELETE);
}

int access_file(sqlite3_vfs*, const char* name, int, int* out) {
    *out = g_disk->find(name) != nullptr ? 1 : 0;
    return SQLITE_OK;
}

int full_path(sqlite3_vfs*, const char* name, int size, char* out) {
    sqlite3_snprintf(size, out, "%s", name);
    return SQLITE_OK;
}

int randomness(sqlite3_vfs*, int size, char* out) {
    std::memset(out, 7, static_cast<size_t>(size));
    return size;
}

int sleep_us(sqlite3_vfs*, int) {
    return 0;
}

int current_time(sqlite3_vfs*, double* out) {
    *out = 2460000.5;
    return SQLITE_OK;
}

int last_error(sqlite3_vfs*, int, char*) {
    return 0;
}

sqlite3_vfs make_vfs() {
    sqlite3_vfs out{};
    out.iVersion = 1;
    out.szOsFile = sizeof(Handle);
    out.mxPathname = 4096;
    out.zName = "mosaic-crash";
    out.xOpen = open_file;
    out.xDelete = delete_file;
    out.xAccess = access_file;
    out.xFullPathname = full_path;
    out.xRandomness = randomness;
    out.xSleep = sleep_us;
    out.xCurrentTime = current_time;
    out.xGetLastError = last_error;
    return out;
}

sqlite3_vfs g_vfs = make_vfs();

}  // namespace

CrashDisk::CrashDisk() {
    g_disk = this;
    sqlite3_vfs_register(&g_vfs, 1);
}

CrashDisk::~CrashDisk() {
    sqlite3_vfs_unregister(&g_vfs);
    g_disk = nullptr;
}

bool CrashDisk::operate() {
    if (!has_power()) {
        return false;
    }
    ++operations_;
    if (operations_ >= fail_from_ && operations_ < fail_until_) {
        ++failed_;
        return false;
    }
    return has_power();
}

CrashDisk::File* CrashDisk::find(const std::string& path) {
    const auto found = files_.find(path);
    return found != files_.end() && found->second.exists ? &found->second : nullptr;
}

CrashDisk::File& CrashDisk::create(const std::string& path) {
    File& file = files_[path];
    file.exists = true;
    return file;
}

bool CrashDisk::write(File& file, uint64_t offset, const char* bytes, size_t size) {
    if (!operate()) {
        return false;
    }
    file.unsynced.push_back({offset, std::string(bytes, size), false});
    apply(file.now, file.unsynced.back(), size);
    return true;
}

bool CrashDisk::truncate(File& file, uint64_t size) {
    if (!operate()) {
        return false;
    }
    file.unsynced.push_back({size, "", true});
    file.now.resize(size);
    return true;
}

bool CrashDisk::sync(File& file) {
    if (!operate()) {
        return false;
    }
    ++syncs_;
    file.synced = file.now;
    file.unsynced.clear();
    if (!std::exchange(file.exists_synced, true)) {
        sync_directory();  // as SQLite's own VFS does with the first fsync of a new file
    }
    return true;
}

bool CrashDisk::remove(const std::string& path, bool for_good) {
    if (!operate()) {
        return false;
    }
    File* const file = find(path);
    if (file != nullptr) {
        file->exists = false;
        file->now.clear();
        file->unsynced.push_back({0, "", true});
        if (for_good) {
            sync_directory();
        }
    }
    return true;
}

void CrashDisk::sync_directory() {
    for (auto& [path, file] : files_) {
        if (!file.exists) {
            file.exists_synced = false;
            file.synced.clear();
            file.unsynced.clear();
        }
    }
}

void CrashDisk::restart(uint64_t seed) {
    std::mt19937_64 random(seed);
    for (auto& [path, file] : files_) {
        std::string left = file.synced;
        for (const Write& write : file.unsynced) {
            const uint64_t fate = random() % 4;
            if (fate == 0) {
                continue;  // it never got there
            }
            // Sectors get there whole, a longer write may be cut after any of them.
            constexpr size_t kSector = 512;
            size_t bytes = write.bytes.size();
            if (fate == 1 && bytes > kSector) {
                bytes = random() % (bytes / kSector + 1) * kSector;
            }
            apply(left, write, bytes);
        }
        file.exists = file.exists_synced || !left.empty();
        file.now = left;
        file.synced = std::move(left);
        file.unsynced.clear();
        file.shared.clear();
    }
    power_until_ = UINT64_MAX;
}

}  // namespace mosaic::broker::test
