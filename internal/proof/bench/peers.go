package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// measurePeers sends the streams of measureStream through the program as shipped and through another gateway, which only
// passes them on.
func measurePeers(ctx context.Context, f *fleet, g *group) error {
	g.title = fmt.Sprintf("the same streams of %d tokens/s through others", tokensPerSecond)
	server, err := f.server(ctx, shipped, nil)
	if err != nil {
		return err
	}
	gateway, err := f.startPortkey(ctx, f.points[roleModel].address)
	if err != nil {
		return err
	}
	f.add(gateway)
	all := map[string]flow{}
	if err := f.through(ctx, all, f.points[roleModel], f.points[roleRelay], gateway, server); err != nil {
		return err
	}
	g.columns = []string{shipped, gateway.name, roleRelay, roleModel}
	g.add(g.rowOf("1 stream: first delta, added, p50", "ms", all, func(s flow) float64 { return s.firsts.MS(.5) - s.direct }))
	g.stages(f.stages, all)
	for n := range g.rows { // targets and figures are stream's
		g.rows[n].target, g.rows[n].figure = nil, ""
	}
	g.note("auth, storage, history and memory are in the program's streams alone")
	return nil
}

const portkeyPackage = "@portkey-ai/gateway"

// startPortkey runs the gateway with its defaults, but on loopback: no cache, guardrails or configuration. Its
// environment is only what is given, so that no proxy or setting of this machine has an effect.
func (e *environment) startPortkey(ctx context.Context, model string) (endpoint, error) {
	folder := filepath.Join(e.source, "internal/proof/bench/npm")
	text, err := os.ReadFile(filepath.Join(folder, "node_modules", portkeyPackage, "package.json"))
	if err != nil {
		return endpoint{}, fmt.Errorf("run scripts/setup peers: %w", err)
	}
	var found struct{ Version string }
	if err := json.Unmarshal(text, &found); err != nil {
		return endpoint{}, err
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return endpoint{}, fmt.Errorf("Node.js is needed: %w", err)
	}
	command := exec.CommandContext(ctx, node, //nolint:gosec // a script of the npm project
		"--import", "./loopback.mjs", "node_modules/"+portkeyPackage+"/build/start-server.js", "--port=0", "--headless")
	command.Dir, command.Env = folder, []string{"NODE_ENV=production"}
	p, err := kit.StartHelper(command)
	if err != nil {
		return endpoint{}, err
	}
	if err := p.AwaitAddress("http://"); err != nil {
		return endpoint{}, fmt.Errorf("Portkey's gateway: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, p.Stdout) }() // what else it prints, until it ends
	return endpoint{
		Process: p.Process, name: "Portkey " + found.Version, address: p.Address, stop: p.Stop,
		headers: "x-portkey-provider: openai\r\nx-portkey-custom-host: " + model + "/v1\r\n",
	}, nil
}
