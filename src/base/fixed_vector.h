#pragma once

#include <array>
#include <cstddef>

#include "base/assert.h"

namespace mosaic {

// Up to N values in place, for results of pure machines: no allocation, compared by value. Adding
// one past N is a bug of ours.
template <class T, size_t N>
class FixedVector {
  public:
    void push_back(const T& value) {
        MOSAIC_ASSERT(size_ < N);
        values_[size_] = value;
        ++size_;
    }

    [[nodiscard]] size_t size() const { return size_; }

    [[nodiscard]] bool empty() const { return size_ == 0; }

    [[nodiscard]] const T& operator[](size_t i) const {
        MOSAIC_ASSERT(i < size_);
        return values_[i];
    }

    [[nodiscard]] const T* begin() const { return values_.data(); }

    [[nodiscard]] const T* end() const { return values_.data() + size_; }

  private:
    std::array<T, N> values_{};
    size_t size_ = 0;
};

}  // namespace mosaic
