package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measurePeers sends the same paced streams through the model alone, the bare line relay, our server and another
// gateway. What the parts are and do is as in measureStream.
func measurePeers(ctx context.Context, e *environment) (g group, err error) {
	g.Title = fmt.Sprintf("the same streams of %d tokens/s through others", tokensPerSecond)
	f, err := e.startFleet(ctx, role{Profile: e.profile}, roleRelay, roleServer)
	if err != nil {
		return g, err
	}
	defer func() { err = errors.Join(err, f.stop()) }()
	gateway, err := startPortkey(ctx, f[0].Address)
	if err != nil {
		return g, err
	}
	f = append(f, gateway)
	for i := range f {
		f[i].mayBreak = true
		g.Columns = append(g.Columns, f[i].name)
	}
	// First deltas when there is nothing else to do.
	took, err := e.firsts(ctx, f)
	if err != nil {
		return g, err
	}
	for _, p := range percentiles {
		for i := range f {
			g.add(row{What: "1 stream: first delta, added, " + p.name, Unit: "ms", Of: f[i].name, Value: took[i].MS(p.q) - took[0].MS(.5)})
		}
	}
	for _, at := range e.stages {
		loads, err := e.loads(ctx, f, at)
		if err != nil {
			return g, err
		}
		for _, figure := range peersFigures {
			for i := range f {
				g.add(row{What: fmt.Sprintf("%d streams: %s", at.streams, figure.what), Unit: figure.unit, Of: f[i].name, Value: figure.of(loads[i])})
			}
		}
	}
	g.note("added: less than the model's own median; auth, storage, history and memory are in ours alone")
	g.note("CPU and memory: of the process and its children, without Postgres's; broken: without a terminal event")
	g.panels = peersPanels
	return g, nil
}

// peersFigures are the figures of a load.
var peersFigures = []struct {
	what, unit string
	of         func(load) float64
}{
	{"first delta, p50", "ms", func(l load) float64 { return l.first.MS(.5) }},
	{"first delta, p99", "ms", func(l load) float64 { return l.first.MS(.99) }},
	{"token lag, p50", "ms", func(l load) float64 { return l.lag.MS(.5) }},
	{"token lag, p99", "ms", func(l load) float64 { return l.lag.MS(.99) }},
	{"pace kept", "%", func(l load) float64 { return l.pace }},
	{"memory", "MB", load.megabytes},
	{"CPU per token", "µs", load.cpuPerToken},
	{"streams that broke", "", func(l load) float64 { return float64(l.broken) }},
}

// peersPanels draws the rows of the stages, a line for each program.
func peersPanels(rows []row) []kit.Panel {
	panels := []kit.Panel{
		{Title: "Token lag, 99 of 100 are below", Log: true}, {Title: "First delta, median", Log: true},
		{Title: "Memory of the process"}, {Title: "CPU time per token"},
	}
	for i, drawn := range []string{"token lag, p99", "first delta, p50", "memory", "CPU per token"} {
		panels[i].X = "streams at once"
		for _, r := range rows {
			if streams, what, found := strings.Cut(r.What, " streams: "); found && what == drawn {
				panels[i].Unit = r.Unit
				addPoint(&panels[i], streams, r)
			}
		}
	}
	return panels
}

// addPoint adds a row's value to the line of its program. Ours is the first line, so that it has the same colour
// in all charts.
func addPoint(p *kit.Panel, place string, r row) {
	if !slices.Contains(p.Places, place) {
		p.Places = append(p.Places, place)
	}
	at := slices.IndexFunc(p.Lines, func(l kit.Line) bool { return l.Name == r.Of })
	if at < 0 {
		if at = len(p.Lines); r.Of == roleServer {
			at = 0
		}
		p.Lines = slices.Insert(p.Lines, at, kit.Line{Name: r.Of})
	}
	p.Lines[at].Points = append(p.Lines[at].Points, kit.Point{X: float64(len(p.Places) - 1), Y: r.Value})
}

// npmFolder returns the folder into which other programs are restored from npm, seen from the repository's root or
// from this package.
func npmFolder() (string, error) {
	const project = "internal/proof/bench/npm"
	for _, folder := range []string{project, "npm"} {
		if _, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json")); err == nil {
			return folder, nil
		}
	}
	return "", errors.New("the packages of " + project + " are missing: run scripts/setup peers")
}

// versionOf returns the version of a restored package.
func versionOf(folder, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, "node_modules", name, "package.json"))
	if err != nil {
		return "", err
	}
	var found struct{ Version string }
	return found.Version, json.Unmarshal(text, &found)
}

// startNode starts a script of the npm project. Its environment is only what is given, so that no proxy or
// setting of this machine has an effect.
func startNode(ctx context.Context, folder string, environment []string, args ...string) (*kit.Helper, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("Node.js is needed: %w", err)
	}
	command := exec.CommandContext(ctx, node, args...) //nolint:gosec // the scripts of the npm project
	command.Dir = folder
	command.Env = environment
	return kit.StartHelper(command)
}

const portkeyPackage = "@portkey-ai/gateway"

// startPortkey runs the gateway with its defaults, but on loopback: no cache, guardrails or configuration.
func startPortkey(ctx context.Context, model string) (endpoint, error) {
	folder, err := npmFolder()
	if err != nil {
		return endpoint{}, err
	}
	version, err := versionOf(folder, portkeyPackage)
	if err != nil {
		return endpoint{}, err
	}
	p, err := startNode(ctx, folder, []string{"NODE_ENV=production"},
		"--import", "./loopback.mjs", "node_modules/"+portkeyPackage+"/build/start-server.js", "--port=0", "--headless")
	if err != nil {
		return endpoint{}, err
	}
	if err := p.AwaitAddress("http://"); err != nil {
		return endpoint{}, fmt.Errorf("Portkey's gateway: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, p.Stdout) }() // what else it prints, until it ends
	return endpoint{
		Helper: p, name: "Portkey " + version, foreign: true,
		headers: "x-portkey-provider: openai\r\nx-portkey-custom-host: " + model + "/v1\r\n",
	}, nil
}
