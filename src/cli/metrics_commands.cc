// metrics.

#include "base/utf8.h"
#include "cli/command.h"
#include "cli/metrics_view.h"
#include "cli/output.h"
#include "metrics/reader.h"
#include "wire/codes.h"

namespace mosaic::cli {

int run_metrics(const Context& context) {
    auto client = connect_admin(context);
    if (!client) {
        return report(context, client.error());
    }
    const auto answer = ask(context, *client, {"metrics", json::Object{}, kReplyWithin, true});
    if (!answer) {
        return answer.error();
    }
    const json::Value* text = answer->find("text");
    if (text == nullptr || text->string() == nullptr) {
        return report(context, Error{Code::invalid, 0, "metrics: the reply has another shape"});
    }
    if (!context.options.json) {
        return finish(print(escape_for_terminal(*text->string())));
    }
    const auto families = metrics::read_text(*text->string());
    if (!families) {
        return report(context, families.error());
    }
    return finish(print_json(metrics_value(*families)));
}

}  // namespace mosaic::cli
