package tools

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/proof/kit"
	"github.com/arcoscribe/throughline/internal/proof/people"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// whatIsThis is a message to which the model answers when it has seen a photo.
const whatIsThis = "What is this? 0"

func seePhoto(r *offline.Request) offline.Answer {
	if r.Step == 0 {
		return offline.Says(offline.Text{Text: "Let me see. "}, offline.Call{Name: "photo", CallID: "c1"})
	}
	return offline.Says(offline.Text{Text: "A nice cat."})
}

// Replies that wait for their users cost a server nothing: no lease, no connection to the model, no goroutine. Then they are answered, each
// at the other server.
func waitForUsers(t *testing.T, s *people.System) {
	t.Helper()
	answer(t, s, ask(t, s, 16)) // what is opened once is open
	before := settled(t, s, 0)
	replies := ask(t, s, *waiting)
	assert.Equal(t, *waiting, testkit.Ask[int](t, s.Admin, `select count(*)::int from messages where status = 'awaiting'`))
	assert.Zero(t, testkit.Ask[int](t, s.Admin, `select count(*)::int from messages where server_id is not null`), "leases")
	began := time.Now()
	after := settled(t, s, before)
	took := time.Since(began)
	answer(t, s, replies)
	assert.Equal(t, *waiting+16, testkit.Ask[int](t, s.Admin, `select count(*)::int from messages
		where role = 'assistant' and status = 'complete' and content = 'Let me see. A nice cat.' and jsonb_array_length(parts) = 2`))
	report(t, "replies that wait for their users", fmt.Sprintf("%s wait: 0 leases, 0 connections to the model, %d goroutines of both servers "+
		"(%d before) after %.1f s; answered at the other server all are complete", mark("waiting", *waiting), after, before, took.Seconds()))
}

// waits is a reply that waits for the user of a client.
type waits struct {
	client  testkit.Client
	message string
}

// ask starts replies in chats of different users, some at a time, and returns them when they wait.
func ask(t *testing.T, s *people.System, n int) []waits {
	all := make([]waits, n)
	each(t, n, func(i int) error {
		_, token, err := kit.NewUser(t.Context(), s.Admin)
		if err != nil {
			return err
		}
		client := testkit.Client{T: t, Base: s.Servers()[i%2], Token: token}
		stream, err := client.TryOpen(http.MethodPost, "/v1/message/first", testkit.Body{"content": whatIsThis, "tools": offered})
		all[i], err = ends(client, stream, err, testkit.Awaiting)
		return err
	})
	return all
}

// answer answers each at the other server than the one that it was asked at, and wants all to be complete.
func answer(t *testing.T, s *people.System, all []waits) {
	each(t, len(all), func(i int) error {
		client, call := all[i].client, openCall{CallID: "c1"}
		client.Base = s.Servers()[(i+1)%2]
		stream, err := client.TryOpen(http.MethodPost, call.path(all[i].message), call.answer(false))
		_, err = ends(client, stream, err, testkit.Completion)
		return err
	})
}

// ends reads a stream that must end with an event.
func ends(client testkit.Client, stream *testkit.Stream, err error, event string) (waits, error) {
	if err != nil {
		return waits{}, err
	}
	if stream.Response.StatusCode != http.StatusOK {
		return waits{}, errors.New(stream.Raw())
	}
	got, err := stream.TryRest()
	if err == nil && got.End.Name != event {
		err = fmt.Errorf("it ends with %s %v", got.End.Name, got.End.Data)
	}
	return waits{client, got.MessageID}, err
}

func each(t *testing.T, n int, do func(i int) error) {
	var all errgroup.Group
	all.SetLimit(20)
	for i := range n {
		all.Go(func() error { return do(i) })
	}
	require.NoError(t, all.Wait())
}

var goroutines = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// settled waits until nothing is connected to the model, and the servers have no more goroutines than before, but for the few that come
// and go. It returns how many those are; for 0 of before it waits for the connections alone.
func settled(t *testing.T, s *people.System, before int) (now int) {
	const comeAndGo = 8
	require.Eventually(t, func() bool {
		now = 0
		for _, server := range s.Servers() {
			metrics, err := kit.Get(t.Context(), s.HTTP, server+"/metrics")
			require.NoError(t, err)
			found := goroutines.FindSubmatch(metrics)
			require.NotNil(t, found)
			n, _ := strconv.Atoi(string(found[1])) // of digits
			now += n
		}
		return connected(t, s.Model.BaseURL()) == 0 && (before == 0 || now <= before+comeAndGo)
	}, 20*time.Second, 100*time.Millisecond, "goroutines of the servers, or connections to the model, do not end")
	return now
}

// connected counts the connections to a server on this machine.
func connected(t *testing.T, base string) int {
	address, err := url.Parse(base)
	require.NoError(t, err)
	port, err := strconv.Atoi(address.Port())
	require.NoError(t, err)
	table, err := os.ReadFile("/proc/net/tcp")
	require.NoError(t, err)
	return strings.Count(string(table), fmt.Sprintf(":%04X 01 ", port)) // the other end's port, and the state of an open connection
}
