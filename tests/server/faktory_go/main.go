// A producer and a worker made with Faktory's own Go packages, for test_faktory_clients.py.
// faktory_node.js says what both of them do.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"time"

	faktory "github.com/contribsys/faktory/client"
	worker "github.com/contribsys/faktory_worker_go"
)

func say(what map[string]any) {
	text, _ := json.Marshal(what)
	fmt.Println(string(text))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func job(jid, jobtype string, args ...any) *faktory.Job {
	one := faktory.NewJob(jobtype, args...)
	one.Jid = jid
	return one
}

func produce() {
	client, err := faktory.Open()
	check(err)
	defer client.Close()
	check(client.Push(job("good-job-1", "Good", 1, map[string]any{"deep": []string{"ä"}})))
	flaky := job("flaky-job", "Flaky", "once")
	flaky.Custom = map[string]any{"trace": "t-1"}
	check(client.Push(flaky))
	hopeless := job("hopeless-job", "Hopeless", 5)
	hopeless.Retry = &faktory.RetryPolicyDirectToMorgue
	check(client.Push(hopeless))
	check(client.Push(job("doomed-job", "Doomed", 6)))
	later := job("good-job-2", "Good", 2)
	later.At = time.Now().Add(300 * time.Millisecond).UTC().Format(time.RFC3339Nano)
	check(client.Push(later))
	rejected, err := client.PushBulk([]*faktory.Job{job("good-job-3", "Good", 3), job("good-job-4", "Good", 4)})
	check(err)
	say(map[string]any{"rejected": len(rejected)})
}

func work() {
	runs := 0
	manager := worker.NewManager()
	manager.Concurrency = 3
	manager.Logger = &worker.StdLogger{Logger: log.New(os.Stderr, "", 0)}
	manager.Use(func(ctx context.Context, job *faktory.Job, next func(ctx context.Context) error) error {
		line := map[string]any{"jobtype": job.Type, "args": job.Args}
		if job.Failure != nil {
			line["failure"] = job.Failure.ErrorMessage
		}
		if job.Custom != nil {
			line["custom"] = job.Custom
		}
		say(line)
		return next(ctx)
	})
	manager.Register("Good", func(context.Context, ...any) error { return nil })
	manager.Register("Flaky", func(context.Context, ...any) error {
		runs++
		if runs == 1 {
			return errors.New("dial tcp 127.0.0.1:9: connect: connection refused")
		}
		return nil
	})
	manager.Register("Hopeless", func(context.Context, ...any) error { return errors.New("never") })
	manager.Register("Doomed", func(context.Context, ...any) error { return errors.New("not yet") })
	manager.Register("Slow", func(_ context.Context, args ...any) error {
		for {
			if _, err := os.Stat(args[0].(string)); err == nil {
				return nil
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
	manager.On(worker.Quiet, func(*worker.Manager) error {
		say(map[string]any{"event": "quiet"})
		return nil
	})
	manager.On(worker.Shutdown, func(*worker.Manager) error {
		say(map[string]any{"event": "terminate"})
		return nil
	})
	check(manager.Run())
}

// The manager sends no backtraces; a worker of one's own may.
func failByHand() {
	faktory.RandomProcessWid = "by-hand"
	client, err := faktory.Open()
	check(err)
	defer client.Close()
	check(client.Push(job("traced-job", "Doomed", 7)))
	one, err := client.Fetch("default")
	check(err)
	check(client.Fail(one.Jid, errors.New("connection reset by peer"), debug.Stack()))
}

func care() {
	client, err := faktory.Open()
	check(err)
	defer client.Close()
	state, err := client.CurrentState()
	check(err)
	say(map[string]any{"dead": state.Data.Sets["dead"], "failures": state.Data.TotalFailures})
	check(client.Discard(faktory.Dead, faktory.OfType("Hopeless")))
}

func main() {
	map[string]func(){"produce": produce, "work": work, "fail-by-hand": failByHand, "care": care}[os.Args[1]]()
}
