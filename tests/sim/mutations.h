#pragma once

#include <array>
#include <optional>
#include <string_view>

// Deliberate mistakes of the simulated shell and broker, one at a time. Each leaves out or swaps
// one thing that the product does; a checker must notice, or it proves nothing.

namespace mosaic::sim {

enum class Mutation {
    none,
    // The replacement of sessions.json.
    file_not_synced,
    directory_not_synced,
    synced_after_rename,
    file_written_in_place,
    failed_sync_repeated,
    short_write_taken_for_whole,
    short_write_over_its_part,
    every_waiter_told,
    // Runs.
    delivered_before_recorded,
    entry_removed_before_end,
    end_forgotten_with_broker,
    failed_end_not_repeated,
    end_never_sent,
    end_line_only_when_first,
    runner_not_killed_at_exit,
    kill_left_out,
    only_outer_killed,
    launch_not_answered,
    answered_before_claim,
    refusal_not_answered,
    turn_not_given_back,
    any_number_sets_up,
    seat_not_checked,
    seat_free_too_early,
    capacity_not_counted,
    exit_before_status,
    late_tick_not_made_good,
    late_tick_by_its_lateness,
    spawn_time_not_made_good,
    old_deadline_counts,
    slot_reused_at_once,
    stopped_with_ends_waiting,
    directory_kept_of_unknown_run,
    // Warm seats.
    warm_delivered_before_recorded,
    warm_seat_not_counted,
    warm_launch_goes_on,
    warm_end_sent,
    warm_left_at_stop,
    warm_leftover_ended,
    warm_taken_not_ended,
    warm_stale_taken,
    warm_directory_kept,
    warm_entry_taken_out,
    warm_asker_forgotten,
    warm_refill_out_of_turn,
    // Recovery.
    proc_not_scanned,
    bound_runs_not_asked,
    start_time_not_compared,
    boot_not_compared,
    served_before_recovered,
    ended_before_gone,
    known_directory_removed,
    leftover_kept_in_file,
    left_not_synced,
    logged_end_not_looked_up,
    unknown_directory_kept,
    stuck_leftover_not_counted,
    found_commit_not_ended,
    // The broker.
    broker_answers_before_commit,
    broker_commit_not_synced,
    broker_end_keeps_role,
    broker_end_recorded_twice,
    broker_refuses_unknown_end,
    broker_keeps_failed_turn,
    broker_lists_claimed_only,
    broker_drops_unacked_message,
    broker_accepts_anybody,
    last,
};

struct MutationInfo {
    Mutation mutation;
    std::string_view name;
};

#define MOSAIC_MUTATION(name) \
    MutationInfo {            \
        Mutation::name, #name \
    }

constexpr std::array kMutations = {
    MOSAIC_MUTATION(file_not_synced),
    MOSAIC_MUTATION(directory_not_synced),
    MOSAIC_MUTATION(synced_after_rename),
    MOSAIC_MUTATION(file_written_in_place),
    MOSAIC_MUTATION(failed_sync_repeated),
    MOSAIC_MUTATION(short_write_taken_for_whole),
    MOSAIC_MUTATION(short_write_over_its_part),
    MOSAIC_MUTATION(every_waiter_told),
    MOSAIC_MUTATION(delivered_before_recorded),
    MOSAIC_MUTATION(entry_removed_before_end),
    MOSAIC_MUTATION(end_forgotten_with_broker),
    MOSAIC_MUTATION(failed_end_not_repeated),
    MOSAIC_MUTATION(end_never_sent),
    MOSAIC_MUTATION(end_line_only_when_first),
    MOSAIC_MUTATION(runner_not_killed_at_exit),
    MOSAIC_MUTATION(kill_left_out),
    MOSAIC_MUTATION(only_outer_killed),
    MOSAIC_MUTATION(launch_not_answered),
    MOSAIC_MUTATION(answered_before_claim),
    MOSAIC_MUTATION(refusal_not_answered),
    MOSAIC_MUTATION(turn_not_given_back),
    MOSAIC_MUTATION(any_number_sets_up),
    MOSAIC_MUTATION(seat_not_checked),
    MOSAIC_MUTATION(seat_free_too_early),
    MOSAIC_MUTATION(capacity_not_counted),
    MOSAIC_MUTATION(exit_before_status),
    MOSAIC_MUTATION(late_tick_not_made_good),
    MOSAIC_MUTATION(late_tick_by_its_lateness),
    MOSAIC_MUTATION(spawn_time_not_made_good),
    MOSAIC_MUTATION(old_deadline_counts),
    MOSAIC_MUTATION(slot_reused_at_once),
    MOSAIC_MUTATION(stopped_with_ends_waiting),
    MOSAIC_MUTATION(directory_kept_of_unknown_run),
    MOSAIC_MUTATION(warm_delivered_before_recorded),
    MOSAIC_MUTATION(warm_seat_not_counted),
    MOSAIC_MUTATION(warm_launch_goes_on),
    MOSAIC_MUTATION(warm_end_sent),
    MOSAIC_MUTATION(warm_left_at_stop),
    MOSAIC_MUTATION(warm_leftover_ended),
    MOSAIC_MUTATION(warm_taken_not_ended),
    MOSAIC_MUTATION(warm_stale_taken),
    MOSAIC_MUTATION(warm_directory_kept),
    MOSAIC_MUTATION(warm_entry_taken_out),
    MOSAIC_MUTATION(warm_asker_forgotten),
    MOSAIC_MUTATION(warm_refill_out_of_turn),
    MOSAIC_MUTATION(proc_not_scanned),
    MOSAIC_MUTATION(bound_runs_not_asked),
    MOSAIC_MUTATION(start_time_not_compared),
    MOSAIC_MUTATION(boot_not_compared),
    MOSAIC_MUTATION(served_before_recovered),
    MOSAIC_MUTATION(ended_before_gone),
    MOSAIC_MUTATION(known_directory_removed),
    MOSAIC_MUTATION(leftover_kept_in_file),
    MOSAIC_MUTATION(left_not_synced),
    MOSAIC_MUTATION(logged_end_not_looked_up),
    MOSAIC_MUTATION(unknown_directory_kept),
    MOSAIC_MUTATION(stuck_leftover_not_counted),
    MOSAIC_MUTATION(found_commit_not_ended),
    MOSAIC_MUTATION(broker_answers_before_commit),
    MOSAIC_MUTATION(broker_commit_not_synced),
    MOSAIC_MUTATION(broker_end_keeps_role),
    MOSAIC_MUTATION(broker_end_recorded_twice),
    MOSAIC_MUTATION(broker_refuses_unknown_end),
    MOSAIC_MUTATION(broker_keeps_failed_turn),
    MOSAIC_MUTATION(broker_lists_claimed_only),
    MOSAIC_MUTATION(broker_drops_unacked_message),
    MOSAIC_MUTATION(broker_accepts_anybody),
};

#undef MOSAIC_MUTATION

static_assert(kMutations.size() + 1 == static_cast<size_t>(Mutation::last));

[[nodiscard]] inline std::optional<Mutation> find_mutation(std::string_view name) {
    for (const MutationInfo& info : kMutations) {
        if (info.name == name) {
            return info.mutation;
        }
    }
    return std::nullopt;
}

}  // namespace mosaic::sim
