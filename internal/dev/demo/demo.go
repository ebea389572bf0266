// Package demo plays a long conversation through a running server, as an app would: over HTTP, one
// message after the other, reading each reply as it streams. Then it reads Postgres and prints the brief, its
// revisions, and the tokens of memory in each prompt beside those of the whole history.
//
// It measures and checks (offsets of the streams, coverage of the turns), but it does not assert anything:
// a test does that with the Summary. It starts no server, mints no token and reads no environment.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/arcoscribe/throughline/internal/client"
)

// Options of Run. URL, Token and Out are required.
type Options struct {
	// URL is the API's base, such as http://127.0.0.1:8080. Token is a user's access token; it must be valid
	// for the whole run.
	URL, Token string
	// DatabaseURL is where the brief, its revisions, stored token counts and pending folds are read, with the
	// rights of the connecting role. Without it they are left out, and tokens are counted here.
	DatabaseURL string
	// Conversation to play, nil for the built-in one. The caller closes it.
	Conversation io.Reader
	// Format of Conversation: FormatJSONL or FormatLongMemEval. Defaults to FormatJSONL.
	Format string
	// Index of the conversation within a file of several (FormatLongMemEval), from 0.
	Index int
	// Turns is the number of user messages to play; 0 for all.
	Turns int
	// Parallel is the number of chats that play the conversation at once; the report is about the first.
	// Defaults to 1. More than the server's MAX_STREAMS_PER_USER is of no use.
	Parallel int
	// Hurry sends each message as soon as the last reply is complete. Otherwise a fold that is due may finish first, as
	// it would in the minutes or days between a person's messages. It has no effect without DatabaseURL.
	Hurry bool
	// Question is asked at the end, to see what is remembered. Defaults to one about the beginning of
	// the built-in conversation, and to none for another.
	Question string
	Out      io.Writer
	// Interactive means that Out is a terminal: the progress bar is redrawn. Otherwise a line is printed now and then.
	Interactive bool
}

// Bounds of waiting.
const (
	// foldPatience is the longest wait for a chat's fold.
	foldPatience = time.Minute
	foldPoll     = 200 * time.Millisecond
	// queryTimeout bounds the reading from Postgres; an interrupt does not shorten it.
	queryTimeout = 10 * time.Second
)

const (
	width       = 80 // of the output, in columns
	maxParallel = 64
)

// Run plays the conversation and prints the report. When ctx ends early it reports the turns so far and returns them
// with Interrupted set, and no error. After any other failure it reports the turns so far as well, and returns the
// error with them.
func Run(ctx context.Context, o Options) (Summary, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Summary{}, err
	}
	script, err := o.script()
	if err != nil {
		return Summary{}, err
	}
	if o.Conversation == nil && o.Question == "" {
		o.Question = builtinQuestion
	}
	r := runner{Options: o, script: script, client: client.New(o.URL, o.Token), foldPatience: foldPatience}
	return r.run(ctx)
}

func (o Options) withDefaults() (Options, error) {
	switch {
	case o.URL == "" || o.Token == "" || o.Out == nil:
		return o, errors.New("demo: URL, Token and Out are required")
	case o.Turns < 0:
		return o, errors.New("demo: the number of turns must not be negative")
	case o.Parallel < 0 || o.Parallel > maxParallel:
		return o, fmt.Errorf("demo: from 1 to %d chats can play at once", maxParallel)
	}
	o.URL = strings.TrimRight(o.URL, "/")
	o.Parallel = max(o.Parallel, 1)
	return o, nil
}

// script reads the conversation and selects what can be sent.
func (o Options) script() (script, error) {
	lines, err := o.lines()
	if err != nil {
		return script{}, err
	}
	s := newScript(lines, o.Turns)
	if len(s.turns) == 0 {
		return s, errors.New("demo: the conversation has no user message with text")
	}
	return s, nil
}

func (o Options) lines() ([]Line, error) {
	switch {
	case o.Conversation == nil:
		return BuiltinConversation()
	case o.Format == "" || o.Format == FormatJSONL:
		return ReadConversation(o.Conversation)
	case o.Format == FormatLongMemEval:
		return ReadLongMemEval(o.Conversation, o.Index)
	}
	return nil, fmt.Errorf("demo: there is no format %q; the formats are %s and %s", o.Format, FormatJSONL, FormatLongMemEval)
}
