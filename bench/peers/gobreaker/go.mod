module bench/gobreaker

go 1.22

require github.com/sony/gobreaker/v2 v2.1.0
