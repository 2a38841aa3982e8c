module bench/faktory

go 1.24

require github.com/contribsys/faktory v1.9.3
