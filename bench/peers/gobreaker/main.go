// gobreaker's breaker around a call that does nothing, as the rival of core.breaker_closed.
package main

import (
	"fmt"
	"sort"
	"syscall"

	"github.com/sony/gobreaker/v2"
)

const (
	rounds     = 11
	iterations = 2000000
)

func nothing() (int, error) { return 0, nil }

// Processor time, as in bench_core: what others do on the machine should not count.
func cpuNs() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

func main() {
	cb := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{Name: "bench"})
	var ns []float64
	for r := 0; r < rounds; r++ {
		start := cpuNs()
		for i := 0; i < iterations; i++ {
			if _, err := cb.Execute(nothing); err != nil {
				panic(err)
			}
		}
		ns = append(ns, float64(cpuNs()-start)/iterations)
	}
	sort.Float64s(ns)
	fmt.Printf("{\"rows\":[{\"name\":\"gobreaker.closed\",\"value\":%.2f,\"unit\":\"ns\",\"durable\":null}]}\n", ns[rounds/2])
}
