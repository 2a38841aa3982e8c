// River on PostgreSQL: jobs that do nothing.
//
//	peer lives URL JOBS CONCURRENCY    submits them in batches and works them
//	peer fill URL JOBS                 submits them
//	peer work URL CONCURRENCY          stands by (contest.go)
//	peer feed URL RATE SECONDS
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

const batch = 1000

type noop struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
}

func (noop) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[noop]
	run func(noop)
}

func (w *worker) Work(_ context.Context, job *river.Job[noop]) error {
	w.run(job.Args)
	return nil
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

func open(ctx context.Context, url string) *pgxpool.Pool {
	pool, err := pgxpool.New(ctx, url) // of pgx's own size: larger ones were slower here
	must(err)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet()})
	must(err)
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	must(err)
	return pool
}

func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func newClient(pool *pgxpool.Pool, concurrency int, run func(noop)) *river.Client[pgx.Tx] {
	workers := river.NewWorkers()
	river.AddWorker(workers, &worker{run: run})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown:     river.FetchCooldownMin,
		FetchPollInterval: 10 * time.Millisecond,
		Logger:            quiet(),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: concurrency}},
		Workers:           workers,
	})
	must(err)
	return client
}

func submit(ctx context.Context, client *river.Client[pgx.Tx], jobs int, atNs int64) {
	args := noop{atNs, textFor(atNs)}
	params := make([]river.InsertManyParams, min(batch, jobs))
	for i := range params {
		params[i].Args = args
	}
	for done := 0; done < jobs; done += batch {
		_, err := client.InsertManyFast(ctx, params[:min(batch, jobs-done)])
		must(err)
	}
}

func left(ctx context.Context, pool *pgxpool.Pool) (n int) {
	must(pool.QueryRow(ctx, "select count(*) from river_job where state <> 'completed'").Scan(&n))
	return n
}

func lives(ctx context.Context, pool *pgxpool.Pool, jobs, concurrency int) {
	var ran atomic.Int64
	over := make(chan struct{})
	client := newClient(pool, concurrency, func(noop) {
		if ran.Add(1) == int64(jobs) {
			close(over)
		}
	})

	start := time.Now()
	submit(ctx, client, jobs, 0)
	submitS := time.Since(start).Seconds()

	start = time.Now()
	must(client.Start(ctx))
	<-over
	for left(ctx, pool) > 0 {
		time.Sleep(2 * time.Millisecond)
	}
	workS := time.Since(start).Seconds()
	must(client.Stop(ctx))
	fmt.Printf("{\"submit_s\":%f,\"work_s\":%f,\"ran\":%d}\n", submitS, workS, ran.Load())
}

func main() {
	ctx := context.Background()
	numbers := os.Args[3:]
	pool := open(ctx, os.Args[2])
	note := func(job noop) { noteRun(job.At) }
	switch os.Args[1] {
	case "lives":
		lives(ctx, pool, number(numbers[0]), number(numbers[1]))
	case "fill":
		submit(ctx, newClient(pool, 1, note), number(numbers[0]), 0)
	case "work":
		client := newClient(pool, number(numbers[0]), note)
		standBy(func() { must(client.Start(ctx)) })
	case "feed":
		client := newClient(pool, 1, note)
		feed(decimal(numbers[0]), decimal(numbers[1]), func(n int, atNs int64) { submit(ctx, client, n, atNs) })
	}
}
