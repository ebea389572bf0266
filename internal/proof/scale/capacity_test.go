package main

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The capacity of one Postgres is computed in docs/scale.md: its inputs stand there and nowhere else. These tests
// compute the page's tables again from its inputs, and hold its formula for waits against a simulation.

// capacity has the page's inputs by their symbols. Times are in milliseconds.
type capacity map[string]float64

// readTables returns the rows of the page's tables by their first cell.
func readTables(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/scale.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if _, known := rows[cells[0]]; len(cells) > 3 && !known {
			rows[cells[0]] = cells[1:]
		} else if known && len(cells) > 3 { // the second table has turns, too
			rows[cells[0]+" again"] = cells[1:]
		}
	}
	return rows
}

func number(t *testing.T, cell string) float64 {
	t.Helper()
	value, err := strconv.ParseFloat(strings.Fields(cell)[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func readInputs(t *testing.T, tables map[string][]string) capacity {
	t.Helper()
	in := capacity{}
	for symbol := range strings.SplitSeq("p a w g f k t r h b d y n q s u", " ") {
		row := tables[symbol]
		if len(row) < 3 {
			t.Fatalf("the page has no input %s", symbol)
		}
		in[symbol] = number(t, row[1])
	}
	return in
}

// turns returns how many turns a second so many cores of Postgres carry.
func (in capacity) turns(cores float64) float64 { return in["u"] * cores * 1e3 / in["p"] }

// held returns the seconds for which a turn holds a connection.
func (in capacity) held() float64 { return (in["p"] + in["t"]*in["y"]) / 1e3 }

// waits returns the share of transactions that wait for one of the cores, which are busy for a share of the time.
func waits(cores int, busy float64) float64 {
	blocked, offered := 1.0, busy*float64(cores)
	for i := 1; i <= cores; i++ {
		blocked = offered * blocked / (float64(i) + offered*blocked)
	}
	return blocked / (1 - busy*(1-blocked))
}

// wait returns the time, in services, that 99 of 100 transactions wait at most.
func wait(cores int, busy float64) float64 {
	return max(0, math.Log(100*waits(cores, busy))/(float64(cores)*(1-busy)))
}

// compare compares a row of the page with what its formula comes to.
func compare(t *testing.T, tables map[string][]string, name string, want []float64) {
	t.Helper()
	row := tables[name]
	if len(row) != len(want)+1 {
		t.Fatalf("%q has %d cells", name, len(row))
	}
	for i, value := range want {
		// Three digits are printed, whole numbers whole.
		if got := number(t, row[i+1]); math.Abs(got-value) > max(0.006*value, 0.006) && math.Round(value) != got {
			t.Errorf("%s, column %d: the page says %v, the formula %v", name, i+1, got, value)
		}
	}
}

func TestCapacityOfOnePostgresIsWhatThePageSays(t *testing.T) {
	t.Parallel()
	tables := readTables(t)
	in := readInputs(t, tables)
	service := in["p"] / in["t"]
	for name, formula := range map[string]func(cores float64) float64{
		"turns, /s":                            in.turns,
		"active users":                         func(c float64) float64 { return in.turns(c) * 3600 / in["h"] },
		"replies that stream at once":          func(c float64) float64 { return in.turns(c) * in["r"] },
		"transactions that wait for a core, %": func(c float64) float64 { return 100 * waits(int(c), in["u"]) },
		"they and all others wait, p99, ms":    func(c float64) float64 { return service * wait(int(c), in["u"]) },
		"WAL, MB/s":                            func(c float64) float64 { return in.turns(c) * in["g"] / 1e3 },
		"the disk writes WAL, of the time, %":  func(c float64) float64 { return in.turns(c) * in["g"] / 10 / in["d"] },
		"connections that work":                func(c float64) float64 { return in.turns(c) * in.held() },
		"rows of messages, /s":                 func(c float64) float64 { return 2 * in.turns(c) },
		"a day of this leaves on disk, GB":     func(c float64) float64 { return in.turns(c) * in["k"] * 86400 / 1e6 },
		"folds, /s":                            func(c float64) float64 { return in.turns(c) / in["f"] },
		"API processes":                        func(c float64) float64 { return math.Ceil(in.turns(c) * in["a"] / 1e3 / in["u"] / in["b"]) },
		"cores of workers":                     func(c float64) float64 { return in.turns(c) * in["w"] / 1e3 / in["u"] },
		"the same with cores that are busy for 90 %, p99, ms": func(c float64) float64 { return service * wait(int(c), 0.9) },
	} {
		compare(t, tables, name, []float64{formula(2), formula(8), formula(32)})
	}
}

func TestCapacityOfProcessesIsWhatThePageSays(t *testing.T) {
	t.Parallel()
	const cores = 8
	tables := readTables(t)
	in := readInputs(t, tables)
	carried := func(m float64) float64 { return min(in.turns(cores), m*in["u"]*in["b"]*1e3/in["a"]) }
	for name, formula := range map[string]func(m float64) float64{
		"turns, /s again":                         carried,
		"the servers' cores are busy, %":          func(m float64) float64 { return carried(m) * in["a"] / 10 / m / in["b"] },
		"Postgres's cores are busy, %":            func(m float64) float64 { return carried(m) * in["p"] / 10 / cores },
		"the same with a read replica, %":         func(m float64) float64 { return (1 - in["s"]) * carried(m) * in["p"] / 10 / cores },
		"notifications that all of them hear, /s": func(m float64) float64 { return m * m * in["q"] },
		"connections that only listen":            func(m float64) float64 { return m },
	} {
		var want []float64
		for _, m := range []float64{1, 2, 4, 8, 16, 32} {
			want = append(want, formula(m))
		}
		compare(t, tables, name, want)
	}
}

// What is known of the formula: with one server the share that waits is the load; with two of them and a load of one it
// is a third; and with many more servers than work hardly anything waits.
func TestQueueAgreesWithTextbooks(t *testing.T) {
	t.Parallel()
	near(t, "M/M/1 waits", waits(1, 0.8), 0.8, 1e-12)
	near(t, "M/M/1 p99 of the wait", wait(1, 0.8), math.Log(0.8/0.01)/0.2, 1e-9)
	near(t, "M/M/2 waits", waits(2, 0.5), 1.0/3, 1e-12)
	near(t, "M/M/3 waits", waits(3, 2.0/3), 4.0/9, 1e-12)
	near(t, "a thousand servers, half busy", waits(1000, 0.5), 0, 1e-9)
	near(t, "where one in a thousand waits, the p99", wait(1000, 0.5), 0, 1e-9)
}

// simulate plays the queue: arrivals and services of random length, each by the server that is free first.
func simulate(servers int, busy float64, customers int) (waiting, p99 float64) {
	random := rand.New(rand.NewPCG(7, 7))
	exponential := func(mean float64) float64 { return -mean * math.Log(1-random.Float64()) }
	free := make([]float64, servers)
	waited := make([]float64, customers)
	now := 0.0
	for n := range waited {
		now += exponential(1 / busy / float64(servers))
		at := 0
		for i := range free {
			if free[i] < free[at] {
				at = i
			}
		}
		waited[n] = max(0, free[at]-now)
		free[at] = now + waited[n] + exponential(1)
		if waited[n] > 0 {
			waiting++
		}
	}
	slices.Sort(waited)
	return waiting / float64(customers), waited[customers*99/100]
}

func TestQueueAgreesWithASimulation(t *testing.T) {
	t.Parallel()
	for servers, busy := range map[int]float64{1: 0.5, 2: 0.7, 8: 0.7, 32: 0.875} {
		waiting, p99 := simulate(servers, busy, 400_000)
		near(t, strconv.Itoa(servers)+" servers, share that waits", waiting, waits(servers, busy), 0.02)
		near(t, strconv.Itoa(servers)+" servers, p99 of the wait", p99/wait(servers, busy), 1, 0.1)
	}
}
