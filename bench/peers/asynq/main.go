// Asynq on Redis: jobs that do nothing, submitted and worked.
//
//	peer URL JOBS CONCURRENCY
//
// Asynq has no call that submits several; many callers at once are its best way.
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"
)

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

func submit(redis asynq.RedisClientOpt, jobs, callers int) {
	client := asynq.NewClient(redis)
	defer client.Close()
	payload := []byte(`{"text":"` + strings.Repeat("x", 89) + `"}`) // 100 bytes
	var next atomic.Int64
	var wait sync.WaitGroup
	for range callers {
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

func left(inspector *asynq.Inspector) int {
	info, err := inspector.GetQueueInfo("default")
	must(err)
	return info.Size
}

func main() {
	address := strings.TrimPrefix(os.Args[1], "redis://")
	jobs, concurrency := number(os.Args[2]), number(os.Args[3])
	redis := asynq.RedisClientOpt{Addr: address, PoolSize: concurrency}

	start := time.Now()
	submit(redis, jobs, concurrency)
	submitS := time.Since(start).Seconds()

	var ran atomic.Int64
	over := make(chan struct{})
	work := func(context.Context, *asynq.Task) error {
		if ran.Add(1) == int64(jobs) {
			close(over)
		}
		return nil
	}
	server := asynq.NewServer(redis, asynq.Config{Concurrency: concurrency, LogLevel: asynq.FatalLevel})
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
