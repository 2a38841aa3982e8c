// Asynq on Redis: jobs that do nothing.
//
//	peer lives URL JOBS CONCURRENCY    submits them and works them
//	peer fill URL JOBS                 submits them
//	peer work URL CONCURRENCY          stands by (contest.go)
//	peer feed URL RATE SECONDS
//
// Asynq has no call that submits several; many callers at once are its best way.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

const callers = 100

type noop struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	must(err)
	return n
}

func decimal(text string) float64 {
	n, err := strconv.ParseFloat(text, 64)
	must(err)
	return n
}

func submit(client *asynq.Client, jobs int, atNs int64) {
	payload, err := json.Marshal(noop{atNs, textFor(atNs)})
	must(err)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(callers, jobs) {
		wait.Add(1)
		go func() {
			defer wait.Done()
			for next.Add(1) <= int64(jobs) {
				_, err := client.Enqueue(asynq.NewTask("noop", payload))
				must(err)
			}
		}()
	}
	wait.Wait()
}

func fill(redis asynq.RedisClientOpt, jobs int) {
	client := asynq.NewClient(redis)
	defer client.Close()
	submit(client, jobs, 0)
}

func left(inspector *asynq.Inspector) int {
	info, err := inspector.GetQueueInfo("default")
	must(err)
	return info.Size
}

// A worker that has found nothing looks again after TaskCheckInterval: a second, unless given.
func newServer(redis asynq.RedisClientOpt, concurrency int) *asynq.Server {
	return asynq.NewServer(redis, asynq.Config{
		Concurrency:       concurrency,
		LogLevel:          asynq.FatalLevel,
		TaskCheckInterval: 10 * time.Millisecond,
	})
}

func lives(redis asynq.RedisClientOpt, jobs, concurrency int) {
	start := time.Now()
	fill(redis, jobs)
	submitS := time.Since(start).Seconds()

	var ran atomic.Int64
	over := make(chan struct{})
	work := func(context.Context, *asynq.Task) error {
		if ran.Add(1) == int64(jobs) {
			close(over)
		}
		return nil
	}
	server := newServer(redis, concurrency)
	inspector := asynq.NewInspector(redis)
	start = time.Now()
	must(server.Start(asynq.HandlerFunc(work)))
	<-over
	for left(inspector) > 0 {
		time.Sleep(2 * time.Millisecond)
	}
	workS := time.Since(start).Seconds()
	server.Shutdown()
	fmt.Printf("{\"submit_s\":%f,\"work_s\":%f,\"ran\":%d}\n", submitS, workS, ran.Load())
}

func work(redis asynq.RedisClientOpt, concurrency int) {
	server := newServer(redis, concurrency)
	must(server.Ping())
	standBy(func() {
		must(server.Start(asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
			var job noop
			if err := json.Unmarshal(task.Payload(), &job); err != nil {
				return err
			}
			noteRun(job.At)
			return nil
		})))
	})
}

func main() {
	numbers := os.Args[3:]
	redis := asynq.RedisClientOpt{Addr: strings.TrimPrefix(os.Args[2], "redis://"), PoolSize: callers}
	switch os.Args[1] {
	case "lives":
		lives(redis, number(numbers[0]), number(numbers[1]))
	case "fill":
		fill(redis, number(numbers[0]))
	case "work":
		work(redis, number(numbers[0]))
	case "feed":
		client := asynq.NewClient(redis)
		feed(decimal(numbers[0]), decimal(numbers[1]), func(n int, atNs int64) { submit(client, n, atNs) })
	}
}
