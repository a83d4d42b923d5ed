#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "metrics/reader.h"
#include "wire/json.h"

// What `mosaic metrics --json` prints: the families of a text as data. Pure.

namespace mosaic::cli {

// An array of {"name","type","help","metrics":[…]}. A metric is {"labels","value"}; one of a
// histogram {"labels","buckets":{"<bound>":N},"sum","count"}, its buckets cumulative. What is no
// number in JSON is the text that it has in the format: "+Inf", "NaN".
[[nodiscard]] json::Value metrics_value(const std::vector<metrics::Family>& families);

}  // namespace mosaic::cli
