#include "host/capability.h"

#include <doctest/doctest.h>

#include <string>

using mosaic::host::capability_hash;

TEST_CASE("a capability's hash is its SHA-256 in lower-case hex") {
    // The vectors of FIPS 180-2, appendix B, and of the empty message.
    CHECK(capability_hash("") ==
          "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    CHECK(capability_hash("abc") ==
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    CHECK(capability_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("every byte of a capability counts, a NUL too") {
    const std::string cap(64, 'a');
    for (size_t i = 0; i < cap.size(); ++i) {
        std::string other = cap;
        other[i] = '\0';
        CHECK(capability_hash(other) != capability_hash(cap));
    }
    CHECK(capability_hash(cap + '\0') != capability_hash(cap));
}
