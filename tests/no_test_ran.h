#pragma once

#include <doctest/doctest.h>

#include <cstdio>

// A test that was asked for by name and doesn't exist must not pass: doctest itself is content with
// none. Include it where doctest's implementation is made, and return exit_code() of its result.

namespace mosaic::test {

class RanCount : public doctest::IReporter {
  public:
    explicit RanCount(const doctest::ContextOptions& /*options*/) {}

    static unsigned ran;

    // What the program returns when doctest returned `result`.
    static int exit_code(int result) {
        if (result == 0 && ran == 0) {
            std::fprintf(stderr, "no test case has such a name\n");
            return 1;
        }
        return result;
    }

    void report_query(const doctest::QueryData& /*data*/) override { ran = 1; }

    void test_run_end(const doctest::TestRunStats& stats) override {
        ran = stats.numTestCasesPassingFilters;
    }

    void test_run_start() override {}

    void test_case_start(const doctest::TestCaseData& /*data*/) override {}

    void test_case_reenter(const doctest::TestCaseData& /*data*/) override {}

    void test_case_end(const doctest::CurrentTestCaseStats& /*stats*/) override {}

    void test_case_exception(const doctest::TestCaseException& /*exception*/) override {}

    void subcase_start(const doctest::SubcaseSignature& /*signature*/) override {}

    void subcase_end() override {}

    void log_assert(const doctest::AssertData& /*data*/) override {}

    void log_message(const doctest::MessageData& /*data*/) override {}

    void test_case_skipped(const doctest::TestCaseData& /*data*/) override {}
};

inline unsigned RanCount::ran = 0;

}  // namespace mosaic::test

REGISTER_LISTENER("ran", 1, mosaic::test::RanCount);
