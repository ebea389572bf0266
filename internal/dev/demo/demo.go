// Package demo plays a long conversation through a running server, as an app would: over HTTP, one message after the
// other, reading each reply as it streams. Then it prints what Postgres holds of the chat's memory, and the tokens of
// memory in each prompt beside those of the whole history.
//
// It starts no server, mints no token and reads no environment.
package demo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/arcoscribe/throughline/internal/client"
	"github.com/arcoscribe/throughline/internal/dev/inspect"
	"github.com/arcoscribe/throughline/internal/memory"
)

// Options of Run. URL, Token and Out are required.
type Options struct {
	// URL is the API's base, such as http://127.0.0.1:8080. Token is a user's access token; it must be valid
	// for the whole run.
	URL, Token string
	// DatabaseURL is where folds are waited for and the memory is read, with the rights of the connecting role. Without it
	// both are left out.
	DatabaseURL string
	// Limits are the server's, for the report on the memory.
	Limits memory.Limits
	// Conversation to play, nil for the built-in one: JSON lines, or a LongMemEval file, of which History (from 0) is
	// played. The caller closes it.
	Conversation io.Reader
	History      int
	// Turns is the number of user messages to play; 0 for all.
	Turns int
	// NoTopics leaves out the part about topics: the server keeps none.
	NoTopics bool
	// Question is asked at the end, to see what is remembered. Defaults to a few about the beginning of
	// the built-in conversation, and to none for another.
	Question string
	Out      io.Writer
	// Interactive means that Out is a terminal: the progress bar is redrawn. Otherwise a line is printed now and then.
	Interactive bool
	// foldPatience is the longest wait for a fold. Defaults to a minute.
	foldPatience time.Duration
	// topicsPatience is the longest wait for a change of a topic. Defaults to a minute.
	topicsPatience time.Duration
}

// reportTimeout bounds the report; an interrupt does not shorten it.
const reportTimeout = 10 * time.Second

// Summary is the result of a run.
type Summary struct {
	// ChatID is uuid.Nil when no chat was started.
	ChatID uuid.UUID
	// Turns are those with a whole reply, in order; FailedTurns counts the others.
	Turns       []Turn
	FailedTurns int
	// UnseenTurns counts earlier turns that were neither in the brief nor in the prompt, added up over all replies. It is
	// counted from the stored messages if CoverageChecked, which needs the database.
	UnseenTurns     int
	CoverageChecked bool
	// Answers are the replies to the questions at the end.
	Answers []Answered
	// Elapsed is the time it took.
	Elapsed time.Duration
	// Interrupted is true when the context ended before everything was played.
	Interrupted bool
}

// Run plays the conversation and prints the report. When ctx ends early it reports the turns so far and returns them
// with Interrupted set, and no error. After any other failure it reports the turns so far as well, and returns the
// error with them.
func Run(ctx context.Context, o Options) (Summary, error) {
	lines, unsent, err := o.messages()
	if err != nil {
		return Summary{}, err
	}
	o.URL = strings.TrimRight(o.URL, "/")
	o.foldPatience = cmp.Or(o.foldPatience, time.Minute)
	p := &player{Options: o, questions: o.questions(), client: client.New(o.URL, o.Token), bar: newProgress(o.Out, o.Interactive, len(lines))}
	defer p.client.Close()
	if err := p.client.Reach(ctx); err != nil {
		return Summary{}, err
	}
	if o.DatabaseURL != "" {
		if p.database, err = inspect.Connect(ctx, o.DatabaseURL); err != nil {
			return Summary{}, err
		}
		defer func() { _ = p.database.Close(context.WithoutCancel(ctx)) }() // only read
	}
	fmt.Fprintf(o.Out, "Playing %s to %s\n", count(len(lines), "user message"), o.URL)
	if unsent > 0 {
		fmt.Fprintf(o.Out, "Not sent: %s by others or without text. Every reply is the words of the server's own model.\n", count(unsent, "line"))
	}
	began := time.Now()
	err = p.playAll(ctx, lines)
	p.bar.end()
	p.Elapsed = time.Since(began)
	if err == nil && o.Conversation == nil {
		err = errors.Join(p.showMemories(ctx), p.showTopics(ctx))
	}
	p.Interrupted = ctx.Err() != nil
	if p.Interrupted && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		err = nil
	}
	reporting, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	return p.Summary, errors.Join(err, p.Summary.report(reporting, o))
}

// questions are those that are asked at the end.
func (o Options) questions() []string {
	switch {
	case o.Question != "":
		return []string{o.Question}
	case o.Conversation == nil:
		return builtinQuestions
	}
	return nil
}

// messages reads the conversation and checks the options. unsent counts the lines that cannot be sent.
func (o Options) messages() (messages []Line, unsent int, err error) {
	switch {
	case o.URL == "" || o.Token == "" || o.Out == nil:
		return nil, 0, errors.New("demo: URL, Token and Out are required")
	case o.Turns < 0:
		return nil, 0, errors.New("demo: the number of turns must not be negative")
	}
	var lines []Line
	if o.Conversation == nil {
		lines, err = BuiltinConversation()
	} else {
		lines, err = readFile(o.Conversation, o.History)
	}
	if err != nil {
		return nil, 0, err
	}
	messages, unsent = userMessages(lines, o.Turns)
	if len(messages) == 0 {
		return nil, 0, errors.New("demo: the conversation has no user message with text")
	}
	return messages, unsent, nil
}
