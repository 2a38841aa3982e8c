module redrive/tests/faktory_go

go 1.22

require (
	github.com/contribsys/faktory v1.9.1
	github.com/contribsys/faktory_worker_go v1.7.0
)
