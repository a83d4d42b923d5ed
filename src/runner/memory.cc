// The program's allocator: what is freed is overwritten first. The capability passes through
// parsers and strings on its way from standard input to its page; this way no copy of theirs stays
// behind in memory that was given back. The runner frees little, so it costs nothing that could be
// measured.

#include <malloc.h>
#include <string.h>

#include <cstdlib>
#include <new>

namespace {

void* allocate(size_t size) {
    void* const block = std::malloc(size != 0 ? size : 1);
    if (block == nullptr) {
        std::abort();
    }
    return block;
}

void give_back(void* block) {
    if (block != nullptr) {
        explicit_bzero(block, ::malloc_usable_size(block));
        std::free(block);
    }
}

}  // namespace

void* operator new(size_t size) {
    return allocate(size);
}

void* operator new[](size_t size) {
    return allocate(size);
}

void operator delete(void* block) noexcept {
    give_back(block);
}

void operator delete[](void* block) noexcept {
    give_back(block);
}

void operator delete(void* block, size_t /*size*/) noexcept {
    give_back(block);
}

void operator delete[](void* block, size_t /*size*/) noexcept {
    give_back(block);
}
