// Package demo plays a long conversation through a running server, as an app would: over HTTP, one
// message after the other, reading each reply as it streams. Then it looks into Postgres and prints
// what the memory made of it: the brief, its revisions, and the tokens of memory that each reply was
// given beside what the whole history would have been.
//
// It measures and it checks (offsets of the streams, coverage of the turns), but it asserts nothing:
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
	// URL is the API's base, such as http://127.0.0.1:8080. Token is a user's access token; it has to
	// be good for as long as the conversation takes.
	URL, Token string
	// DatabaseURL is read for the brief, its revisions, stored token counts and pending folds, with the
	// rights of the connecting role. Without it those are left out, and tokens are counted here.
	DatabaseURL string
	// Conversation is what is played, nil for the built-in one. The caller closes it.
	Conversation io.Reader
	// Format of Conversation: FormatJSONL or FormatLongMemEval. Defaults to FormatJSONL.
	Format string
	// Index of the conversation within a file of several (FormatLongMemEval), from 0.
	Index int
	// Turns is how many user messages are played; 0 for all.
	Turns int
	// Parallel is how many chats play the conversation at once; the report is about the first.
	// Defaults to 1. The server's MAX_STREAMS_PER_USER bounds what is of use.
	Parallel int
	// Hurry sends each message as soon as the last reply is there. Otherwise a fold that is due may
	// finish first, as it would have in the minutes or days that lie between a person's messages. Has no
	// effect without DatabaseURL, where nobody knows of folds.
	Hurry bool
	// Question is asked at the end, to see what is remembered. Defaults to one about the beginning of
	// the built-in conversation, and to none for any other.
	Question string
	Out      io.Writer
	// Interactive says that Out is a terminal: the progress bar redraws itself. Otherwise it is a line
	// now and then.
	Interactive bool
	// Width of the output in columns. Defaults to 80.
	Width int
}

// Bounds of waiting.
const (
	// foldPatience is how long one wait for a chat's fold may take.
	foldPatience = time.Minute
	foldPoll     = 200 * time.Millisecond
	// lastLook bounds each look into Postgres; an interrupt does not shorten it.
	lastLook = 10 * time.Second
)

const (
	minWidth, defaultWidth, maxWidth = 50, 80, 160
	maxParallel                      = 64
)

// Run plays the conversation and prints the report. When ctx ends early it prints what there is so
// far and returns it with Interrupted set, and no error. After any other failure it prints what there
// is too, and returns the error with it.
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
	if o.Width == 0 {
		o.Width = defaultWidth
	}
	o.Width = min(max(o.Width, minWidth), maxWidth)
	return o, nil
}

// script reads the conversation and makes of it what can be sent.
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
