// What a worker of the benchmark over a network says about its jobs, and how jobs are fed to it:
// bench/network/contestant.c has the words. Copied beside each peer's main.go when it is built.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

const (
	feedEvery = 5 * time.Millisecond
	feedMax   = 1000
)

var runs struct {
	sync.Mutex
	Ran     int64 `json:"ran"`
	FirstNs int64 `json:"first_ns"`
	LastNs  int64 `json:"last_ns"`
	waitsUs []int64
}

// The clock of the machine: Go's own times cannot be compared with those of another process.
func nowNs() int64 {
	var t syscall.Timespec
	const monotonic = 1
	_, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonic, uintptr(unsafe.Pointer(&t)), 0)
	if errno != 0 {
		panic(errno)
	}
	return t.Nano()
}

// The text that makes a payload with this time 100 bytes of JSON.
func textFor(atNs int64) string {
	return strings.Repeat("x", 89-len(`"at":,`)-len(fmt.Sprint(atNs)))
}

func noteRun(atNs int64) {
	startNs := nowNs()
	runs.Lock()
	defer runs.Unlock()
	if runs.Ran++; runs.Ran == 1 {
		runs.FirstNs = startNs
	}
	runs.LastNs = startNs
	if atNs > 0 {
		runs.waitsUs = append(runs.waitsUs, (startNs-atNs)/1000)
	}
}

func printJSON(what any) {
	text, err := json.Marshal(what)
	must(err)
	fmt.Println(string(text))
}

func standBy(start func()) {
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "go":
			start()
		case "count":
			runs.Lock()
			printJSON(map[string]int64{"ran": runs.Ran, "first_ns": runs.FirstNs, "last_ns": runs.LastNs})
			runs.Unlock()
		case "waits":
			runs.Lock()
			printJSON(append([]int64{}, runs.waitsUs...))
			runs.Unlock()
		}
	}
	os.Exit(0)
}

func feed(rate, seconds float64, submit func(n int, atNs int64)) {
	start, sent, passed := time.Now(), 0, 0.0
	for passed < seconds {
		passed = time.Since(start).Seconds()
		n := min(int(rate*min(passed, seconds))-sent, feedMax)
		if n > 0 {
			submit(n, nowNs())
		}
		sent += n
		time.Sleep(feedEvery)
	}
	printJSON(map[string]float64{"sent": float64(sent), "seconds": passed})
}
