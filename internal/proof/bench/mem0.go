package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/memory"
)

const mem0Package = "mem0ai"

// mem0 is the library of that name, as a process, and a Postgres for its vectors as another: it is asked for memories before each reply, and given each
// turn behind it. The last turns are shown beside the memories, as with the others.
type mem0 struct {
	*transcript
	meter
	version  string
	folder   string // its Postgres's files
	vectors  *process
	process  *process
	model    *extractor
	embedder *offline.Server
	stop     func()
}

func (e *environment) newMem0(ctx context.Context) (_ keeper, err error) {
	packages, err := npmFolder()
	if err != nil {
		return nil, err
	}
	k := &mem0{}
	if k.version, err = versionOf(packages, mem0Package); err != nil {
		return nil, err
	}
	if k.transcript, err = e.newTranscript(ctx); err != nil {
		return nil, err
	}
	k.embedder = offline.New(e.remember.standIn(nil))
	k.meter.model = k.embedder
	if k.model, err = newExtractor(e.remember.summaryTime); err != nil {
		return nil, err
	}
	address, stop, err := serve(ctx, k.model.beside(k.embedder))
	if err != nil {
		return nil, errors.Join(err, k.close())
	}
	k.stop = stop
	if k.folder, err = os.MkdirTemp("", "throughline-bench-mem0-"); err != nil {
		return nil, errors.Join(err, k.close())
	}
	if err := k.start(ctx, packages, address); err != nil {
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

func (k *mem0) start(ctx context.Context, packages, model string) error {
	var err error
	if k.vectors, err = startNode(ctx, packages, []string{"FOLDER=" + filepath.Join(k.folder, "data")}, "pgvector.mjs"); err != nil {
		return err
	}
	if err := k.vectors.awaitAddress("postgres://"); err != nil {
		return fmt.Errorf("Postgres with pgvector: %w", err)
	}
	// It would tell its makers of itself otherwise.
	k.process, err = startNode(ctx, packages, []string{"MEM0_TELEMETRY=false", "MEM0_DIR=" + k.folder, "DATABASE_URL=" + k.vectors.address, "MODEL_URL=" + model + "/v1"}, "mem0.mjs")
	return err
}

func (k *mem0) name() string { return "mem0 " + k.version }

func (k *mem0) spent() work {
	k.count()
	k.work.bill = k.model.spent()
	return k.work
}

func (k *mem0) turn(ctx context.Context, content, reply string) (told, error) {
	began := time.Now()
	turns, err := k.add(ctx, memory.RoleUser, content, memory.DefaultLimits().KRawTurns)
	if err != nil {
		return told{}, err
	}
	before := k.count().embeddings
	var found struct {
		Memories []string
		Error    string
	}
	if err := k.tell(map[string]any{"search": content}, &found); err != nil {
		return told{}, err
	}
	if found.Error != "" {
		return told{}, errors.New("search: " + found.Error)
	}
	t := told{input: shown(listed(found.Memories), turns, content), waited: time.Since(began)}
	t.standIn = time.Duration(k.count().embeddings-before) * k.remember.embeddingTime
	if err := k.replied(ctx, reply); err != nil {
		return told{}, err
	}
	began = time.Now()
	var kept struct{ Error string }
	err = k.tell(map[string]any{"add": []message{{"user", content}, {"assistant", reply}}}, &kept)
	if err == nil && kept.Error != "" {
		err = errors.New("add: " + kept.Error)
	}
	t.after = time.Since(began)
	return t, err
}

// message is one of a conversation, as mem0 and its model write it.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// tell asks the process for one thing.
func (k *mem0) tell(what map[string]any, answer any) error {
	line, err := json.Marshal(what)
	if err != nil {
		return err
	}
	return k.process.ask(string(line), answer)
}

// listed writes memories as they are usually put into a prompt.
func listed(memories []string) string {
	var text strings.Builder
	for _, one := range memories {
		text.WriteString("- " + one + "\n")
	}
	return text.String()
}

func (k *mem0) close() error {
	var errs []error
	for _, p := range []*process{k.process, k.vectors} {
		if p != nil {
			errs = append(errs, p.stop())
		}
	}
	if k.stop != nil {
		k.stop()
	}
	k.embedder.Close()
	return errors.Join(append(errs, k.model.close(), os.RemoveAll(k.folder))...)
}
