"""The judge reports each kind of fault, and not what is nearly one and allowed. Times are seconds."""
import pytest

from tests.judge.events import story
from tests.judge.promises import LEASE_LOST, Contract
from tests.judge.verdict import complaints, judged, load, save


def event(kind, mono, job="a", **facts):
    return {"event": kind, "id": job, "mono": mono, **facts}


def submitted(job="a", at=0.0, **facts):
    """Asked for and acknowledged a tenth of a second later."""
    return [event("submit", at, job, **facts), event("acknowledged", at + 0.1, job)]


def run(job="a", at=1.0, attempt=1, status="SUCCESS", took=0.1, **facts):
    """By a handler of the program: nothing is known of its settlement."""
    return [event("start", at, job, attempt=attempt, **facts), event(f"end:{status}", at + took, job, attempt=attempt)]


def claim(job="a", at=1.0, attempt=1, lease=1.0, **facts):
    """By a client, whose request took 0.1 s."""
    return [event("start", at, job, attempt=attempt, claimed=at - 0.1, lease=lease, **facts)]


def settle(job="a", at=1.5, attempt=1, status="SUCCESS", answer="settled"):
    return [event(f"end:{status}", at, job, attempt=attempt),
            event(answer, at + 0.1, job, attempt=attempt, status=status)]


def final(job="a", state="completed", **facts):
    return [event("final", 100.0, job, state=state, **facts)]


def ended(job="a"):
    """Nothing is said of how: only a job that is completed must have been worked on to its end."""
    return final(job, "failed")


def record(job="a", attempt=1, outcome="retrying", error=None, **times):
    return [event("record", 100.0, job, attempt=attempt, outcome=outcome, error=error, **times)]


def kinds(*parts, **contract):
    return sorted({found.kind for found in complaints(sum(parts, []), Contract(**contract))})


def test_a_job_that_is_run_once_is_no_fault():
    assert kinds(submitted(), run(), final()) == []
    assert kinds(submitted(), claim(), settle(), final()) == []


# ---- Lost ----------------------------------------------------------------------------------------


def test_acknowledged_and_gone_is_lost():
    assert kinds(submitted()) == ["lost"]


def test_submit_without_an_answer_may_be_there_or_not():
    unknown = [event("submit", 0.0)]
    assert kinds(unknown) == []
    assert kinds(unknown, run(), final()) == []


def test_jobs_that_have_ended_may_be_removed_only_where_retention_does_it():
    assert kinds(submitted(), run()) == ["lost"]
    assert kinds(submitted(), run(), removed=frozenset({"completed"})) == []
    assert kinds(submitted(), run(status="TRANSIENT_FAIL"), removed=frozenset({"completed"})) == ["lost"]
    assert kinds(submitted(), run(status="PERMANENT_FAIL"), removed=frozenset({"dead_letter"})) == []
    assert kinds(submitted(), removed=frozenset({"completed", "dead_letter"})) == ["lost"], "it never ran"


def test_job_whose_leases_were_all_lost_may_have_become_a_dead_letter():
    silent = submitted() + sum((claim(at=2.0 * n, attempt=n) for n in (1, 2, 3)), [])
    assert kinds(silent, removed=frozenset({"dead_letter"})) == []
    assert kinds(silent, removed=frozenset({"completed"})) == ["lost"]
    assert kinds(silent[:-1], removed=frozenset({"dead_letter"})) == ["lost"]


def test_job_with_which_handlers_died_before_their_first_answer_may_have_become_a_dead_letter():
    """The first time it is given back; the second time it is blamed, as the attempt of the same number."""
    gone = sum((run(at=2.0 * n)[:1] + [event("gone", 2.0 * n + 0.1, attempt=1)] for n in (1, 2)), [])
    assert kinds(submitted(), gone, removed=frozenset({"dead_letter"})) == []
    assert kinds(submitted(), gone, removed=frozenset({"completed"})) == ["lost"]
    assert kinds(submitted(), gone[:2], removed=frozenset({"dead_letter"})) == ["lost"]


def test_job_that_was_run_or_settled_and_is_gone_is_lost():
    assert kinds([event("submit", 0.0)], run()) == ["lost"], "its submit had no answer, and it was there"
    assert kinds([event("submit", 0.0)], run(), removed=frozenset({"completed"})) == []


def test_job_that_never_ends_is_unfinished():
    for state in ("scheduled", "retrying", "queued", "running", "parked", "waiting", "cancelled"):
        assert kinds(submitted(), final(state=state)) == ["unfinished"]
        assert kinds(submitted(), final(state=state), finished=False) == []
    for state in ("completed", "dead_letter", "failed"):
        assert kinds(submitted(), run(), final(state=state)) == []


def test_success_that_was_acknowledged_stays():
    assert kinds(submitted(), claim(), settle(), final(state="dead_letter")) == ["undone"]
    assert kinds(submitted(), claim(), settle(answer="refused"), final(state="dead_letter")) == []


def test_success_that_goes_back_or_ends_otherwise_is_undone():
    assert kinds(submitted(), claim(), settle(), final(state="queued"), finished=False) == ["undone"]
    assert kinds(submitted(), claim(), settle(), final(attempts=2)) == ["undone"]
    assert kinds(submitted(), run(), record(outcome="dead_letter"), final()) == ["undone"]


def test_failure_that_was_acknowledged_stays_in_the_records():
    kept = failed("settled") + claim(at=1.5, attempt=2) + settle(at=1.6, attempt=2) + final()
    assert kinds(kept, recorded=True) == ["forgotten"]
    assert kinds(kept) == [], "the store was not asked"
    assert kinds(kept, record(), recorded=True) == []
    assert kinds(kept, record(outcome="completed"), recorded=True) == ["forgotten"]
    assert kinds(failed("refused"), ended(), recorded=True) == []


def test_job_whose_work_was_never_done_is_not_completed():
    assert kinds(submitted(), claim(), final()) == ["never done"]
    assert kinds(submitted(), claim(), ended()) == []


# ---- Duplicated ----------------------------------------------------------------------------------


def test_claim_after_an_acknowledged_success_is_a_duplicate():
    won = submitted() + claim(at=1.0) + settle(at=1.2)
    assert kinds(won, claim(at=3.0, attempt=2), final()) == ["duplicated"]


def test_claim_that_was_sent_before_the_success_was_acknowledged_may_come_late():
    """The client of the older attempt was stopped between its claim and its handler."""
    first = claim(at=5.0, attempt=1)
    first[0]["claimed"] = 0.9
    assert kinds(submitted(), first, claim(at=2.5, attempt=2), settle(at=2.7, attempt=2), final()) == []


def test_later_attempt_of_the_program_after_a_success_is_a_duplicate():
    won = submitted() + claim(at=1.0, attempt=2) + settle(at=1.2, attempt=2)
    assert kinds(won, run(at=3.0, attempt=3), final()) == ["duplicated"]
    assert kinds(won, run(at=3.0, attempt=1), final()) == [], "a handler that began late"


def test_success_that_was_not_acknowledged_may_be_repeated():
    assert kinds(submitted(), claim(at=1.0), [event("end:SUCCESS", 1.2, attempt=1)], claim(at=3.0, attempt=2),
                 settle(at=3.1, attempt=2), final()) == []


def test_two_acknowledged_successes_are_a_duplicate():
    both = submitted() + claim(at=1.0) + claim(at=2.5, attempt=2) + settle(at=2.7, attempt=2)
    assert kinds(both, settle(at=2.4, attempt=1), final()) == ["duplicated"]
    assert kinds(both, settle(at=2.6, attempt=1, answer="refused"), final()) == []


def test_attempt_that_is_started_twice_is_a_duplicate():
    again = submitted() + run(at=1.0, took=0) + run(at=2.0)
    assert kinds(again, final()) == ["duplicated"]
    assert kinds(again, [event("gone", 1.0, attempt=1)], final()) == [], "the first start was taken back"


def test_second_claim_that_is_acknowledged_as_the_success_is_a_duplicate():
    won = submitted() + claim() + settle()
    assert kinds(won, [{**won[-1], "token": "another"}], final()) == ["duplicated"]
    assert kinds(won, [won[-1]], final()) == [], "the same answer once more"


def test_job_that_is_in_the_store_or_ends_by_its_records_twice_is_a_duplicate():
    done = submitted() + run(at=1.0, status="TRANSIENT_FAIL") + run(at=2.0, attempt=2) + record(ended=1.1, next=1.2)
    end, more = record(attempt=2, outcome="completed"), record(attempt=0, outcome="queued")
    assert kinds(done, end, final()) == []
    assert kinds(done, more, end, final()) == []
    assert kinds(done, end, more, final()) == ["duplicated"]
    assert kinds(done, end, record(attempt=3, outcome="completed"), final()) == ["duplicated"]
    assert kinds(done, end, final(), final()) == ["duplicated"]


# ---- Stale ---------------------------------------------------------------------------------------


def test_answer_after_a_later_attempt_was_handed_out_is_stale():
    both = submitted() + claim(at=1.0) + claim(at=2.5, attempt=2)
    assert kinds(both, settle(at=2.6, attempt=1), final()) == ["stale"]
    assert kinds(both, settle(at=2.6, attempt=1, answer="refused"), final()) == []
    assert kinds(both, settle(at=2.45, attempt=1), final()) == [], "it may have been sent before the other claim"


# ---- Phantom -------------------------------------------------------------------------------------


def test_job_that_no_client_submitted_is_a_phantom():
    assert kinds(run(), ended()) == ["phantom"]
    assert kinds(ended()) == ["phantom"]


def test_job_that_runs_before_it_is_submitted_is_a_phantom():
    assert kinds(submitted(at=2.0), run(at=1.0), final()) == ["phantom"]
    assert kinds(submitted(at=0.99), run(at=1.0), final()) == [], "before the answer is allowed"


def test_job_whose_submit_was_rejected_is_a_phantom():
    rejected = [event("submit", 0.0), event("rejected", 0.1)]
    assert kinds(rejected) == []
    assert kinds(rejected, run(), final()) == ["phantom"]
    assert kinds([event("submit", 0.05)], rejected, run(), final()) == [], "another submit has no answer"


def test_other_payload_is_a_change():
    assert kinds(submitted(payload="p"), run(payload="q"), final()) == ["changed"]
    assert kinds(submitted(payload="p"), run(payload="p"), final()) == []


# ---- Early ---------------------------------------------------------------------------------------


def test_start_before_its_time_lock_is_early():
    assert kinds(submitted(not_before=2.0), run(at=1.9), ended()) == ["early"]
    assert kinds(submitted(not_before=2.0), run(at=2.0), ended()) == []
    assert kinds(submitted(not_before=2.0), run(at=1.9985), ended()) == [], "stores keep milliseconds"
    assert kinds(submitted(not_before=2.0), run(at=1.997), ended()) == ["early"]


def failed(answer):
    return submitted() + claim(at=1.0) + settle(at=1.2, status="TRANSIENT_FAIL", answer=answer)


def test_retry_before_its_backoff_is_early():
    assert kinds(failed("settled"), claim(at=1.35, attempt=2), ended(), backoff_s=0.2) == ["early"]
    assert kinds(failed("settled"), claim(at=1.4, attempt=2), ended(), backoff_s=0.2) == []


def test_delay_that_counts_from_before_its_report_is_early():
    """The retry comes late enough by the clock of its client; the store's time was that of a moment before the request."""
    retried = failed("settled") + claim(at=1.5, attempt=2) + ended()
    assert kinds(retried, record(ended=1.2, next=1.4), backoff_s=0.2) == []
    assert kinds(retried, record(ended=1.16, next=1.36), backoff_s=0.2) == ["early"]
    assert kinds(retried, record(ended=1.199, next=1.399), backoff_s=0.2) == [], "stores keep milliseconds"
    assert kinds(retried, record(ended=1.16, next=1.42), backoff_s=0.2) == [], "the delay counts from a later bound"


def test_delay_that_is_too_short_is_early():
    retried = failed("settled") + claim(at=1.5, attempt=2) + ended()
    assert kinds(retried, record(ended=1.25, next=1.4), backoff_s=0.2) == ["early"]
    assert kinds(retried, record(ended=1.25, next=1.45), backoff_s=0.2) == []


def test_start_before_the_time_of_the_store_is_early():
    late = record(ended=1.25, next=1.45)
    assert kinds(failed("settled"), claim(at=1.44, attempt=2), late, ended(), backoff_s=0.2) == ["early"]
    assert kinds(failed("settled"), claim(at=1.45, attempt=2), late, ended(), backoff_s=0.2) == []


def test_times_of_the_store_are_compared_with_the_wall_clock():
    """The wall clock of this history is 1000 s ahead of the monotonic one."""
    def history(next_start):
        ahead = submitted() + claim(at=1.0) + settle(at=1.2, status="TRANSIENT_FAIL") + claim(at=next_start, attempt=2) + ended()
        return [{**one, "at": one["mono"] + 1000} for one in ahead] + record(ended=1001.25, next=1001.45)

    assert kinds(history(1.46), backoff_s=0.2) == []
    assert kinds(history(1.44), backoff_s=0.2) == ["early"]


def test_retry_after_a_lost_lease_waits_for_the_time_of_the_store():
    again = submitted() + claim(at=1.0) + claim(at=2.5, attempt=2) + ended()
    assert kinds(again, record(error=LEASE_LOST, ended=2.0, next=2.4), backoff_s=0.2) == []
    assert kinds(again, record(error=LEASE_LOST, ended=2.0, next=2.6), backoff_s=0.2) == ["early"]


def test_failure_that_was_refused_delays_nothing():
    assert kinds(failed("refused"), claim(at=1.35, attempt=2), ended(), backoff_s=0.2) == []


def test_failure_in_the_program_counts_by_the_record_of_the_store():
    retried = submitted() + run(at=1.0, status="TRANSIENT_FAIL") + run(at=1.2, attempt=2) + ended()
    assert kinds(retried, record(), backoff_s=0.2) == ["early"]
    assert kinds(retried, record(error=LEASE_LOST), backoff_s=0.2) == [], "its worker was not heard of"


# ---- Lease overlap -------------------------------------------------------------------------------


def test_second_handler_under_a_valid_lease_is_an_overlap():
    """The lease of the first claim, sent at 0.9, lasts at least until 1.9."""
    assert kinds(submitted(), claim(at=1.0), claim(at=1.8, attempt=2), ended()) == ["lease overlap"]
    assert kinds(submitted(), claim(at=1.0), claim(at=1.9, attempt=2), ended()) == []


def test_handler_that_is_about_to_answer_may_hold_nothing_any_more():
    done = submitted() + claim(at=1.0) + [event("end:TRANSIENT_FAIL", 1.2, attempt=1)]
    assert kinds(done, claim(at=1.8, attempt=2), ended()) == []
    assert kinds(done, claim(at=1.15, attempt=2), ended()) == ["lease overlap"]


def test_heartbeat_that_was_answered_keeps_the_lease():
    held = submitted() + claim(at=1.0) + claim(at=2.0, attempt=2) + ended()
    assert kinds(held) == []
    assert kinds(held, [event("extended", 1.6, attempt=1, asked=1.5, lease=1.0)]) == ["lease overlap"]


def test_late_handler_of_an_older_attempt_is_no_overlap():
    """It had been stopped; its own lease was over when it began."""
    late = claim(at=2.2, attempt=1)
    late[0]["claimed"] = 0.5
    assert kinds(submitted(), late, claim(at=2.0, attempt=2), ended()) == []


def test_handlers_of_the_program_overlap_unless_the_store_has_ended_the_lease():
    both = submitted() + run(at=1.0, took=1.0) + run(at=1.5, attempt=2) + ended()
    assert kinds(both) == ["lease overlap"]
    assert kinds(both, record(error=LEASE_LOST)) == []
    assert kinds(submitted(), [event("start", 1.0, attempt=1)], run(at=1.5, attempt=2), ended()) == [], "the first one died"


# ---- Attempts ------------------------------------------------------------------------------------


def test_attempts_in_the_store_are_those_that_were_started():
    retried = submitted() + run(at=1.0, status="TRANSIENT_FAIL") + run(at=2.0, attempt=2)
    assert kinds(retried, final(attempts=2, max_attempts=2)) == []
    assert kinds(retried, final(attempts=3, max_attempts=5)) == [], "one was claimed, and its handler never heard of"
    assert kinds(retried, final(attempts=1, max_attempts=5)) == ["miscounted"]
    assert kinds(retried, final(attempts=2, max_attempts=1)) == ["miscounted"]
    assert kinds(retried, record(), record(), final()) == ["miscounted"]
    assert kinds(retried, record(attempt=0), record(attempt=0), final()) == [], "it was given back twice"


@pytest.mark.parametrize("error, found", [(LEASE_LOST, []), ("Refused", ["out of order"])])
def test_only_an_attempt_that_has_lost_its_lease_may_start_late(error, found):
    swapped = submitted() + sum(([event("start", 1.0 + i, attempt=attempt)] for i, attempt in enumerate((1, 3, 2))), [])
    assert kinds(swapped, record(attempt=2, error=error), ended(), punctual=True) == found
    assert kinds(swapped, record(attempt=2, error=error), ended()) == [], "its worker may have been stopped"


# ---- Priority ------------------------------------------------------------------------------------

ORDERED = {"ordered": frozenset({"q"})}


def two(low_at, high_at, **high):
    """A job of low priority and one of high, claimed at these times."""
    return (submitted("low", queue="q", priority=1) + submitted("high", **{"queue": "q", "priority": 9, **high})
            + claim("low", at=low_at) + claim("high", at=high_at) + ended("low") + ended("high"))


def test_lower_priority_first_is_reported():
    assert kinds(two(low_at=2.0, high_at=3.0), **ORDERED) == ["out of priority"]
    assert kinds(two(low_at=3.0, high_at=2.0), **ORDERED) == []
    assert kinds(two(low_at=2.0, high_at=3.0)) == [], "the order of this queue is not promised"


def test_job_that_never_starts_is_passed_by():
    waits = two(low_at=2.0, high_at=3.0)
    assert kinds([e for e in waits if e["id"] == "low" or e["event"] != "start"], **ORDERED) == ["out of priority"]


def test_higher_priority_that_came_later_is_not_passed_by():
    assert kinds(two(low_at=2.0, high_at=3.0, at=1.85), **ORDERED) == [], "it was acknowledged after the claim was sent"
    assert kinds(two(low_at=2.0, high_at=3.0, not_before=1.95), **ORDERED) == []


def test_claims_under_way_at_the_same_time_have_no_order():
    assert kinds(two(low_at=2.0, high_at=2.05), **ORDERED) == []


def test_job_that_another_process_has_set_aside_is_not_ready():
    assert kinds(two(low_at=2.0, high_at=3.0), reserved_s=1.0, **ORDERED) == []
    assert kinds(two(low_at=2.0, high_at=3.2), reserved_s=1.0, **ORDERED) == ["out of priority"]


def test_job_of_which_an_attempt_is_not_recorded_has_no_place_in_the_order():
    lost = submitted("high", queue="q", priority=9) + claim("high", at=3.0, attempt=2) + ended("high")
    low = submitted("low", queue="q", priority=1) + claim("low", at=2.0) + ended("low")
    assert kinds(low, lost, **ORDERED) == []


# ---- Histories as files --------------------------------------------------------------------------


def test_history_that_is_kept_is_judged_the_same(tmp_path):
    contract = Contract(backoff_s=0.2, ordered=frozenset({"q"}), removed=frozenset({"completed"}))
    history = two(low_at=2.0, high_at=3.0)
    save(history, contract, tmp_path / "history.jsonl")
    assert load(tmp_path / "history.jsonl") == (history, contract)


def test_story_has_the_events_of_the_job_and_the_faults_beside_them():
    history = [*submitted(), *run(), *submitted("b"), {"event": "fault", "id": None, "mono": 1.5, "fault": "kill"},
               {"event": "fault", "id": None, "mono": 50.0, "fault": "pause"}]
    lines = story(history, "a")
    assert [line.split()[1] for line in lines] == ["submit", "acknowledged", "start", "end:SUCCESS", "fault"]
    assert "fault=kill" in lines[-1]


def test_figures_count_what_there_was_to_judge():
    history = submitted() + run(status="TRANSIENT_FAIL") + run(at=2.0, attempt=2) + [event("submit", 0.0, "b")]
    wanted = {"submitted": 2, "acknowledged": 1, "unknown": 1, "starts": 2, "retries": 1, "successes": 1}
    assert judged(history, Contract()).books.totals.items() >= wanted.items()
