// gobreaker's breaker around a call that does nothing, as the rival of core.breaker_closed.
package main

import (
	"fmt"
	"sort"
	"time"

	"github.com/sony/gobreaker/v2"
)

const (
	rounds     = 11
	iterations = 2000000
)

func nothing() (int, error) { return 0, nil }

func main() {
	cb := gobreaker.NewCircuitBreaker[int](gobreaker.Settings{Name: "bench"})
	var ns []float64
	for r := 0; r < rounds; r++ {
		start := time.Now()
		for i := 0; i < iterations; i++ {
			if _, err := cb.Execute(nothing); err != nil {
				panic(err)
			}
		}
		ns = append(ns, float64(time.Since(start).Nanoseconds())/iterations)
	}
	sort.Float64s(ns)
	fmt.Printf("{\"rows\":[{\"name\":\"gobreaker.closed\",\"value\":%.2f,\"unit\":\"ns\",\"durable\":null}]}\n", ns[rounds/2])
}
