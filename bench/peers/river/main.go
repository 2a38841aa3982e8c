// River on PostgreSQL: jobs that do nothing, submitted in batches and worked.
//
//	peer URL JOBS CONCURRENCY
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
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
	Text string `json:"text"`
}

func (noop) Kind() string { return "noop" }

type worker struct {
	river.WorkerDefaults[noop]
	jobs int64
	ran  atomic.Int64
	over chan struct{}
}

func (w *worker) Work(context.Context, *river.Job[noop]) error {
	if w.ran.Add(1) == w.jobs {
		close(w.over)
	}
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

func submit(ctx context.Context, client *river.Client[pgx.Tx], jobs int) {
	args := noop{Text: strings.Repeat("x", 89)} // 100 bytes as JSON
	params := make([]river.InsertManyParams, batch)
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

func main() {
	ctx := context.Background()
	jobs, concurrency := number(os.Args[2]), number(os.Args[3])
	pool := open(ctx, os.Args[1])
	w := &worker{jobs: int64(jobs), over: make(chan struct{})}
	workers := river.NewWorkers()
	river.AddWorker(workers, w)
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		FetchCooldown:     river.FetchCooldownMin,
		FetchPollInterval: 10 * time.Millisecond,
		Logger:            quiet(),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: concurrency}},
		Workers:           workers,
	})
	must(err)

	start := time.Now()
	submit(ctx, client, jobs)
	submitS := time.Since(start).Seconds()

	start = time.Now()
	must(client.Start(ctx))
	<-w.over
	for left(ctx, pool) > 0 {
		time.Sleep(2 * time.Millisecond)
	}
	workS := time.Since(start).Seconds()
	must(client.Stop(ctx))
	fmt.Printf("{\"submit_s\":%f,\"work_s\":%f,\"ran\":%d}\n", submitS, workS, w.ran.Load())
}
