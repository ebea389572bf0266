package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/proof/kit"
)

// member is one of the processes that get killed. One goroutine uses it at a time.
type member struct {
	name    string
	args    []string
	serves  bool
	log     *os.File
	address string // where it listened last
	process *kit.Process
}

// crew is all of them, with the addresses of the servers.
type crew struct {
	program string
	env     map[string]string
	members []*member
	kills   int

	mu        sync.Mutex
	addresses []string
}

// newCrew describes the processes without starting them. Their logs go to a folder.
func newCrew(program, logs string, env map[string]string) (*crew, error) {
	c := &crew{program: program, env: env, members: []*member{
		{name: "serve-1", args: []string{"serve"}, serves: true},
		{name: "serve-2", args: []string{"serve", "--no-workers"}, serves: true},
		{name: "work-1", args: []string{"work"}},
		{name: "work-2", args: []string{"work"}},
	}}
	for _, m := range c.members {
		var err error
		if m.log, err = os.Create(filepath.Join(logs, m.name+".log")); err != nil {
			return nil, errors.Join(err, c.close())
		}
	}
	return c, nil
}

// start starts those that do not run, all at once.
func (c *crew) start(ctx context.Context) error {
	var all errgroup.Group
	for _, m := range c.members {
		if m.process == nil {
			all.Go(func() error { return c.startOne(ctx, m) })
		}
	}
	err := all.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.addresses = c.addresses[:0:0]
	for _, m := range c.members {
		if m.serves {
			c.addresses = append(c.addresses, m.address)
		}
	}
	return err
}

func (c *crew) startOne(ctx context.Context, m *member) error {
	command := kit.Command{Program: c.program, Args: m.args, Env: maps.Clone(c.env), Log: m.log}
	var err error
	if m.address != "" {
		command.Env["HTTP_ADDR"] = m.address
		if m.process, err = kit.Start(ctx, command); err == nil {
			return nil
		}
	}
	command.Env["HTTP_ADDR"] = "127.0.0.1:0" // for the first time, or because another process has taken the port
	if m.process, err = kit.Start(ctx, command); err != nil {
		return fmt.Errorf("start %s: %w", m.name, err)
	}
	m.address = m.process.Address
	return nil
}

// servers returns the addresses of the API, also of servers that are dead at this moment.
func (c *crew) servers() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.addresses
}

// kill ends them as a crash would.
func (c *crew) kill(victims []*member) error {
	var errs []error
	for _, m := range victims {
		if m.process != nil {
			errs = append(errs, m.process.Kill())
			m.process = nil
			c.kills++
		}
	}
	return errors.Join(errs...)
}

// ended returns the processes that ended without being killed.
func (c *crew) ended() (names []string) {
	for _, m := range c.members {
		if m.process != nil && m.process.Ended() {
			names = append(names, m.name)
		}
	}
	return names
}

// victims chooses which processes to kill: mostly one, sometimes a server and a worker, both of a kind, or all.
func (c *crew) victims(chance *rand.Rand) []*member {
	m := c.members
	server, worker := m[chance.IntN(2)], m[2+chance.IntN(2)]
	switch dice := chance.IntN(100); {
	case dice < 35:
		return []*member{server}
	case dice < 60:
		return []*member{worker}
	case dice < 75:
		return []*member{server, worker}
	case dice < 83:
		return m[:2]
	case dice < 91:
		return m[2:]
	}
	return m
}

// close kills what runs and closes the logs.
func (c *crew) close() error {
	errs := []error{c.kill(c.members)}
	for _, m := range c.members {
		if m.log != nil {
			errs = append(errs, m.log.Close())
		}
	}
	return errors.Join(errs...)
}
