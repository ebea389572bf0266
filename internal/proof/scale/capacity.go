package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
)

// inputs are what a turn costs, and what there is to pay with. Each has a flag; the defaults of the costs are what
// make load measured. A turn's share of everything that follows from it is in them: recording, folds, sweeps.
type inputs struct {
	postgresMS, serverMS, workerMS float64
	walKB, rowsKB                  float64
	turnsPerFold, transactions     float64
	replySeconds, turnsPerHour     float64
	serverCores, recordsPerSecond  float64
	diskMB, fsyncMS, connections   float64
	readsShare, utilisation        float64
}

var measuredInputs = inputs{
	postgresMS: 8.09, serverMS: 8.53, workerMS: 0.41, walKB: 19.3, rowsKB: 2.82, turnsPerFold: 21.1,
	transactions: 3, replySeconds: 6, turnsPerHour: 12, serverCores: 2, recordsPerSecond: 40,
	diskMB: 100, fsyncMS: 1, connections: 200, readsShare: 0.1, utilisation: 0.7,
}

// input is one of them, with its flag and its meaning.
type input struct {
	name, what, unit string
	value            *float64
}

func (in *inputs) all() []input {
	return []input{
		{"pg-ms", "Postgres's CPU per turn", "ms", &in.postgresMS},
		{"server-ms", "CPU of the API processes per turn", "ms", &in.serverMS},
		{"worker-ms", "CPU of the workers per turn", "ms", &in.workerMS},
		{"wal-kb", "WAL per turn", "kB", &in.walKB},
		{"rows-kb", "what a turn leaves on disk, indexes included", "kB", &in.rowsKB},
		{"turns-per-fold", "turns per fold", "", &in.turnsPerFold},
		{"transactions", "transactions per turn, its share of records included", "", &in.transactions},
		{"reply-s", "how long a reply streams", "s", &in.replySeconds},
		{"turns-per-hour", "turns of an active user in an hour", "", &in.turnsPerHour},
		{"server-cores", "cores of an API process", "", &in.serverCores},
		{"records-per-s", "records of an API process in a second, at most", "", &in.recordsPerSecond},
		{"disk-mb", "what the disk writes in a second", "MB", &in.diskMB},
		{"fsync-ms", "how long a commit waits for the disk", "ms", &in.fsyncMS},
		{"connections", "connections that Postgres allows", "", &in.connections},
		{"reads-share", "share of Postgres's CPU that a read replica could take", "", &in.readsShare},
		{"utilisation", "share of the cores to plan with", "", &in.utilisation},
	}
}

func (in *inputs) flags(flags *flag.FlagSet) {
	for _, i := range in.all() {
		what := i.what
		if i.unit != "" {
			what += ", in " + i.unit
		}
		flags.Float64Var(i.value, i.name, *i.value, "capacity: "+what)
	}
}

func (in *inputs) check() error {
	for _, i := range in.all() {
		if !(*i.value > 0) || math.IsInf(*i.value, 0) { // NaN is not greater than anything
			return fmt.Errorf("-%s is %v, and must be a number above 0", i.name, *i.value)
		}
	}
	if in.utilisation >= 1 || in.readsShare >= 1 {
		return errors.New("-utilisation and -reads-share are shares, less than 1")
	}
	return nil
}

// turnsPerSecond that so many cores of Postgres carry.
func (in *inputs) turnsPerSecond(cores float64) float64 {
	return in.utilisation * cores * 1e3 / in.postgresMS
}

// queueOf the transactions on so many cores that are busy for a share of the time.
func (in *inputs) queueOf(cores int, busy float64) queue {
	service := in.postgresMS / in.transactions / 1e3
	return queue{servers: cores, rate: busy * float64(cores) / service, service: service}
}

// walLimit is how many turns a second the disk takes.
func (in *inputs) walLimit() float64 { return in.utilisation * in.diskMB * 1e3 / in.walKB }

// held is for how long a turn holds a connection: its transactions' CPU and the waits of their commits, in seconds.
func (in *inputs) held() float64 { return (in.postgresMS + in.transactions*in.fsyncMS) / 1e3 }

// connectionLimit is how many turns a second the connections take (Little's law).
func (in *inputs) connectionLimit() float64 { return in.utilisation * in.connections / in.held() }

// serverLimit is how many turns a second one API process takes.
func (in *inputs) serverLimit() float64 {
	return in.utilisation * in.serverCores * 1e3 / in.serverMS
}

func capacityTables(in inputs) []table {
	return []table{in.inputTable(), in.postgresTable(), in.replicasTable()}
}

func (in *inputs) inputTable() table {
	t := table{title: "capacity: inputs, each a flag"}
	var figures []figure
	for _, i := range in.all() {
		figures = append(figures, figure{"-" + i.name + ": " + i.what, i.unit, *i.value})
	}
	t.addColumn("value", figures)
	return t
}

// nearlyFull is what a day's peak does to a plan.
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
