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
	"strings"
)

// npmProject is where what others wrote is restored from npm, seen from the repository's root.
const npmProject = "internal/proof/bench/npm"

// npmFolder looks for the restored packages, from the working folder upwards.
func npmFolder() (string, error) {
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		folder := filepath.Join(here, npmProject)
		if _, err := os.Stat(filepath.Join(folder, "node_modules", ".package-lock.json")); err == nil {
			return folder, nil
		}
		above := filepath.Dir(here)
		if above == here {
			return "", errors.New("the packages of " + npmProject + " are missing: run scripts/setup peers")
		}
		here = above
	}
}

// versionOf is the version of a package that is restored.
func versionOf(folder, name string) (string, error) {
	text, err := os.ReadFile(filepath.Join(folder, "node_modules", name, "package.json"))
	if err != nil {
		return "", err
	}
	var found struct{ Version string }
	return found.Version, json.Unmarshal(text, &found)
}

// startNode starts a script of the npm project. Its environment is what is given and nothing else: no proxy
// and no setting of this machine gets in between.
func startNode(ctx context.Context, folder string, environment []string, args ...string) (*process, error) {
	node, err := exec.LookPath("node")
	if err != nil {
		return nil, fmt.Errorf("Node.js is needed: %w", err)
	}
	command := exec.CommandContext(ctx, node, args...) //nolint:gosec // the scripts of the npm project
	command.Dir = folder
	command.Env = environment
	p, err := startProcess(command)
	if err != nil {
		return nil, err
	}
	p.foreign = true
	return p, nil
}

// awaitAddress reads on until a script tells where it listens, and stops it where it does not.
func (p *process) awaitAddress(scheme string) error {
	for {
		line, err := p.stdout.ReadString('\n')
		if err != nil {
			return errors.Join(errors.New("it did not start"), p.stop())
		}
		if line = strings.TrimSpace(line); strings.HasPrefix(line, scheme) {
			p.address = line
			return nil
		}
	}
}

const portkeyPackage = "@portkey-ai/gateway"

// startPortkey runs the gateway as it comes: without cache, guardrails or a configuration. Only that it
// listens on loopback is ours.
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
	if err := p.awaitAddress("http://"); err != nil {
		return endpoint{}, fmt.Errorf("Portkey's gateway: %w", err)
	}
	go func() { _, _ = io.Copy(io.Discard, p.stdout) }() // what else it prints, until it ends
	return endpoint{
		name: "Portkey " + version, process: p,
		headers: "x-portkey-provider: openai\r\nx-portkey-custom-host: " + model + "/v1\r\n",
	}, nil
}
