"""The simulator over HTTP does no more work than there may be. Its figures are in transcripts/http-simulate.md."""

import threading


def test_work_that_grows_while_it_runs_is_cut_off(start):
    server = start()
    before = server.cpu_s()
    problem = server.api.problem(400, "GET", "/simulate", rate="200", duration="490s", outage="400s", attempts="100",
                                 strategies="none,exponential,full-jitter", capacity="1", workers="100000")
    assert "too much" in problem["detail"] and problem["hint"]
    assert server.cpu_s() - before < 30  # some seconds with sanitizers, and a bound in any case


def test_one_at_a_time_and_other_requests_meanwhile(api):
    answers = []

    def ask():
        answers.append(api("GET", "/simulate", outage="300s", rate="40"))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    api.submit()
    assert api.ok("GET", "/jobs")["items"]
    for thread in threads:
        thread.join()
    statuses = [answer.status for answer in answers]
    assert set(statuses) <= {200, 503} and 200 in statuses
    assert all(answer.headers["Retry-After"] == "1" for answer in answers if answer.status == 503)
