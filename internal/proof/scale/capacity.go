package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"strings"
)

// inputs are what a turn costs and the resources there are. Each is a flag; docs/scale.md explains them. A turn's
// costs include its share of recording, folds and sweeps. Their defaults are what make load measured.
type inputs struct {
	postgresMS, serverMS, workerMS float64
	walKB, rowsKB                  float64
	turnsPerFold, transactions     float64
	replySeconds, turnsPerHour     float64
	serverCores, recordsPerSecond  float64
	diskMB, fsyncMS, connections   float64
	readsShare, utilisation        float64
}

// input is one of the inputs.
type input struct {
	flag, what, unit string
	value            *float64
	standard         float64
}

func (in *inputs) all() []input {
	return []input{
		{"pg-ms", "Postgres's CPU per turn", "ms", &in.postgresMS, 8.09},
		{"server-ms", "CPU of the API processes per turn", "ms", &in.serverMS, 8.53},
		{"worker-ms", "CPU of the workers per turn", "ms", &in.workerMS, 0.41},
		{"wal-kb", "WAL per turn", "kB", &in.walKB, 19.3},
		{"rows-kb", "what a turn leaves on disk, indexes included", "kB", &in.rowsKB, 2.82},
		{"turns-per-fold", "turns per fold", "", &in.turnsPerFold, 21.1},
		{"transactions", "transactions per turn, its share of records included", "", &in.transactions, 3},
		{"reply-s", "how long a reply streams", "s", &in.replySeconds, 6},
		{"turns-per-hour", "turns of an active user in an hour", "", &in.turnsPerHour, 12},
		{"server-cores", "cores of an API process", "", &in.serverCores, 2},
		{"records-per-s", "records of an API process in a second, at most", "", &in.recordsPerSecond, 40},
		{"disk-mb", "what the disk writes in a second", "MB", &in.diskMB, 100},
		{"fsync-ms", "how long a commit waits for the disk", "ms", &in.fsyncMS, 1},
		{"connections", "connections that Postgres allows", "", &in.connections, 200},
		{"reads-share", "share of Postgres's CPU that a read replica could take", "", &in.readsShare, 0.1},
		{"utilisation", "share of the cores to plan with", "", &in.utilisation, 0.7},
	}
}

// newInputs registers a flag for each input.
func newInputs(flags *flag.FlagSet) *inputs {
	in := &inputs{}
	for _, i := range in.all() {
		flags.Float64Var(i.value, i.flag, i.standard, strings.TrimSuffix("capacity: "+i.what+", in "+i.unit, ", in "))
	}
	return in
}

func (in *inputs) check() error {
	for _, i := range in.all() {
		if !(*i.value > 0) || math.IsInf(*i.value, 0) { // NaN is not greater than anything
			return fmt.Errorf("-%s is %v, and must be a number above 0", i.flag, *i.value)
		}
	}
	if in.utilisation >= 1 || in.readsShare >= 1 {
		return errors.New("-utilisation and -reads-share are shares, less than 1")
	}
	return nil
}

// turnsPerSecond returns how many turns a number of Postgres's cores carries.
func (in *inputs) turnsPerSecond(cores float64) float64 {
	return in.utilisation * cores * 1e3 / in.postgresMS
}

// queueOf returns the queue of transactions at cores that are busy for a share of the time.
func (in *inputs) queueOf(cores int, busy float64) queue {
	service := in.postgresMS / in.transactions / 1e3
	return queue{servers: cores, rate: busy * float64(cores) / service, service: service}
}

// walLimit returns how many turns a second the disk can write.
func (in *inputs) walLimit() float64 { return in.utilisation * in.diskMB * 1e3 / in.walKB }

// held returns the seconds for which a turn holds a connection: CPU of its transactions, and waits for their commits.
func (in *inputs) held() float64 { return (in.postgresMS + in.transactions*in.fsyncMS) / 1e3 }

// connectionLimit returns how many turns a second the connections allow (Little's law).
func (in *inputs) connectionLimit() float64 { return in.utilisation * in.connections / in.held() }

// serverLimit returns how many turns a second one API process carries.
func (in *inputs) serverLimit() float64 {
	return in.utilisation * in.serverCores * 1e3 / in.serverMS
}

func capacityTables(in *inputs) []table {
	return []table{in.inputTable(), in.postgresTable(), in.replicasTable()}
}

func (in *inputs) inputTable() table {
	t := table{title: "capacity: inputs, each a flag"}
	var figures []figure
	for _, i := range in.all() {
		figures = append(figures, figure{"-" + i.flag + ": " + i.what, i.unit, *i.value})
	}
	t.addColumn("value", figures)
	return t
}

// nearlyFull is the utilisation of a day's peak.
const nearlyFull = 0.9

func (in *inputs) postgresTable() table {
	t := table{title: fmt.Sprintf("capacity: one Postgres whose cores are busy for %.0f %% of the time", 100*in.utilisation)}
	for _, cores := range []int{2, 8, 32} {
		rate, planned := in.turnsPerSecond(float64(cores)), in.queueOf(cores, in.utilisation)
		t.addColumn(fmt.Sprintf("%d cores", cores), []figure{
			{"turns", "/s", rate},
			{"active users", "", rate * 3600 / in.turnsPerHour},
			{"replies that stream at once", "", rate * in.replySeconds},
			{"transactions that wait for a core", "%", 100 * planned.waits()},
			{"they and all others wait, p99", "ms", 1e3 * planned.wait(.99)},
			{"the same with cores that are busy for 90 %, p99", "ms", 1e3 * in.queueOf(cores, nearlyFull).wait(.99)},
			{"WAL", "MB/s", rate * in.walKB / 1e3},
			{"the disk writes WAL, of the time", "%", 100 * rate * in.walKB / 1e3 / in.diskMB},
			{"connections that work", "", rate * in.held()},
			{"rows of messages", "/s", 2 * rate},
			{"a day of this leaves on disk", "GB", rate * in.rowsKB * 86400 / 1e6},
			{"folds", "/s", rate / in.turnsPerFold},
			{"API processes", "", math.Ceil(rate / in.serverLimit())},
			{"cores of workers", "", rate * in.workerMS / 1e3 / in.utilisation},
		})
	}
	t.notes = []string{
		fmt.Sprintf("other limits at the same utilisation: WAL %.0f turns/s; %.0f connections %.0f turns/s", in.walLimit(), in.connections, in.connectionLimit()),
		"waits: M/M/c over transactions. A real one waits for locks and the disk, too: these are the least",
	}
	return t
}

// replicasTable adds API processes to a Postgres of 8 cores.
func (in *inputs) replicasTable() table {
	const cores = 8
	t := table{title: fmt.Sprintf("capacity: API processes of %.0f cores before one Postgres of %d", in.serverCores, cores)}
	postgres := in.turnsPerSecond(cores)
	for _, processes := range []int{1, 2, 4, 8, 16, 32} {
		servers := float64(processes) * in.serverLimit()
		rate := min(servers, postgres)
		t.addColumn(fmt.Sprint(processes), []figure{
			{"turns", "/s", rate},
			{"the servers' cores are busy", "%", 100 * in.utilisation * rate / servers},
			{"Postgres's cores are busy", "%", 100 * in.utilisation * rate / postgres},
			{"the same with a read replica", "%", 100 * in.utilisation * rate / postgres * (1 - in.readsShare)},
			{"notifications that all of them hear", "/s", float64(processes*processes) * in.recordsPerSecond},
			{"connections that only listen", "", float64(processes)},
		})
	}
	t.notes = []string{"notifications: each process that records tells all of them, so they grow with the square"}
	return t
}

// queue is M/M/c: arrivals at random (Poisson), exponentially distributed service times, first come, first served
// by a number of servers (A. K. Erlang 1917; Kleinrock, Queueing Systems I, 1975, section 3.5). Times are in
// seconds.
type queue struct {
	servers int
	rate    float64 // of arrivals
	service float64 // mean
}

// utilisation returns the share of time that a server is busy.
func (q queue) utilisation() float64 { return q.rate * q.service / float64(q.servers) }

// waits returns the share of the work that has to wait: Erlang's C, computed from his B, which a float holds for
// any number of servers.
func (q queue) waits() float64 {
	offered := q.rate * q.service
	blocked := 1.0
	for n := 1; n <= q.servers; n++ {
		blocked = offered * blocked / (float64(n) + offered*blocked)
	}
	return blocked / (1 - q.utilisation()*(1-blocked))
}

// wait returns the time that a share of the work, such as 0.99, waits at most; infinity for an overloaded queue.
func (q queue) wait(share float64) float64 {
	if q.utilisation() >= 1 {
		return math.Inf(1)
	}
	beyond := 1 - share
	if q.waits() <= beyond {
		return 0
	}
	return math.Log(q.waits()/beyond) / (float64(q.servers)/q.service - q.rate)
}
