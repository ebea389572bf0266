package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/testkit"
)

// The directory is told at last, and again by another move if that failed.
func TestMoveTellsTheDirectory(t *testing.T) {
	t.Parallel()
	r, there := newRig(t, nil), testkit.NewDatabase(t)
	testkit.Exec(t, r.pool, "insert into chats (user_id) values ($1)", r.user)
	told := filepath.Join(t.TempDir(), "told")
	for n, c := range []struct {
		then, says string
		code       int
	}{
		{"exit 7", "the user has moved, and --then failed; run it again: exit status 7", exitFailed},
		{`printf "%s %s" "$THROUGHLINE_USER" "$THROUGHLINE_CELL" >>` + told, "", exitDone},
		{"", "", exitDone},
	} {
		code, stdout, stderr := finish(t, r.env, "move", r.user.String(), "--to", there.Direct(), "--cell", "b", "--then", c.then)
		assert.Truef(t, code == c.code && strings.Contains(stderr, c.says), "%d: exit code %d, %s", n, code, stderr)
		assert.Equal(t, "moved "+r.user.String()+" to b\n", stdout)
	}
	written, err := os.ReadFile(told)
	require.NoError(t, err)
	assert.Equal(t, r.user.String()+" b", string(written), "the directory")
}

// directory is a file that says in which cell the user lives: the place of a proxy's map.
type directory struct{ path string }

func (d directory) cell() string {
	cell, _ := os.ReadFile(d.path) // empty while it is written
	return string(cell)
}

// device is one that says the next message when it has the answer to the last, and repeats what was refused. Its bodies come slowly.
type device struct {
	t       *testing.T
	token   string
	servers map[string]string // by cell
	directory
	chat    string
	said    []uuid.UUID // the messages with a whole answer
	refused map[int]int // by status
	longest time.Duration
}

func (d *device) talk(stop <-chan struct{}) {
	for n := 1; ; n++ {
		id, begun := uuid.New(), time.Now()
		for !d.say(id, fmt.Sprintf("Turn %d, please.", n)) {
			time.Sleep(10 * time.Millisecond)
		}
		d.longest = max(d.longest, time.Since(begun))
		d.said = append(d.said, id)
		select {
		case <-stop:
			return
		default:
		}
	}
}

func (d *device) say(id uuid.UUID, content string) (answered bool) {
	path, payload := testkit.MessagePath(d.chat, testkit.Body{"content": content, "client_message_id": id})
	body, err := json.Marshal(payload)
	if !assert.NoError(d.t, err) {
		return true
	}
	reader, writer := io.Pipe()
	request, err := http.NewRequest(http.MethodPost, cmp.Or(d.servers[d.cell()], d.servers["a"])+path, reader)
	if !assert.NoError(d.t, err) {
		return true
	}
	request.ContentLength = int64(len(body))
	request.Header = http.Header{"Authorization": {"Bearer " + d.token}, "Content-Type": {"application/json"}, "Accept": {"application/json"}}
	go func() {
		_, _ = writer.Write(body[:10]) // an early answer ends the request, and the pipe with it
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
		_, _ = writer.Write(body[10:])
		_ = writer.Close()
	}()
	response, err := http.DefaultClient.Do(request)
	_ = reader.Close()
	if err != nil {
		d.refused[0]++ // the early answer may be lost with its connection
		return false
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		d.refused[response.StatusCode]++
		return !assert.Contains(d.t, []int{http.StatusServiceUnavailable, http.StatusMisdirectedRequest}, response.StatusCode, "%s", text)
	}
	var answer struct {
		ChatID string `json:"chat_id"`
		Status string
	}
	if assert.NoError(d.t, json.Unmarshal(text, &answer)) {
		assert.Truef(d.t, d.chat == "" || d.chat == answer.ChatID, "another chat: %s", text)
		d.chat = answer.ChatID
	}
	return true
}

// A user goes to and fro while six devices talk, and the mover is killed at any moment. Nothing that was answered is lost or there
// twice, nothing stays behind, and the devices see but 503 and 421.
func TestMoveUnderDevices(t *testing.T) {
	t.Parallel()
	moves := 20
	if testing.Short() {
		moves = 4
	}
	r, other := newRig(t, nil), testkit.NewDatabase(t)
	at := map[string]testkit.Database{"a": r.db, "b": other}
	envs, servers := map[string]env{}, map[string]string{}
	for cell, db := range at {
		envs[cell] = r.env.and(env{"DATABASE_URL": db.ServerDSN, "DATABASE_DIRECT_URL": db.Direct(), "CELL": cell,
			"RATE_LIMIT_MESSAGES_PER_MINUTE": "0", "MAX_STREAMS_PER_USER": "0"})
		servers[cell] = r.start(envs[cell].and(env{"CELL_ADMITS_NEW": fmt.Sprint(cell == "a")}), "serve").Base
	}
	file := directory{filepath.Join(t.TempDir(), "cell")}
	stop, devices, talking := make(chan struct{}), make([]*device, 6), sync.WaitGroup{}
	for n := range devices {
		devices[n] = &device{t: t, token: r.token, servers: servers, directory: file, refused: map[int]int{}}
		talking.Go(func() { devices[n].talk(stop) })
	}
	here, there, kills := "a", "b", 0
	testkit.Eventually(t, "all devices talk", func() bool { return testkit.Ask[int](t, r.pool, "select count(*) from chats") == len(devices) })
	for range moves {
		args := []string{"move", r.user.String(), "--to", at[there].Direct(), "--cell", there, "--then", `printf %s "$THROUGHLINE_CELL" >` + file.path}
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(30+rand.IntN(250))*time.Millisecond)
			dying := program(t, envs[here], args...)
			require.NoError(t, dying.Start())
			ended := make(chan struct{})
			go func() {
				_ = dying.Wait() // the next move says whether it is whole
				close(ended)
			}()
			select {
			case <-ctx.Done():
				_ = dying.Process.Kill()
				<-ended
				kills++
			case <-ended:
			}
			cancel()
		}
		code, _, stderr := finish(t, envs[here], args...)
		require.Equal(t, exitDone, code, stderr)
		here, there = there, here
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
	}
	close(stop)
	talking.Wait()
	home, left := testkit.NewPool(t, at[here].DSN), testkit.NewPool(t, at[there].DSN)
	turns, refused, longest := 0, map[int]int{}, time.Duration(0)
	for _, d := range devices {
		turns += len(d.said)
		longest = max(longest, d.longest)
		for status, times := range d.refused {
			refused[status] += times
		}
		testkit.Want(t, home, len(d.said), `select count(*) from messages q join messages a on a.reply_to = q.id and a.status = 'complete'
			where q.client_message_id = any ($1) and q.chat_id = $2`, d.said, d.chat)
	}
	testkit.Want(t, home, turns, "select count(*) from messages where role = 'user'")
	testkit.Want(t, home, len(devices), "select count(*) from chats")
	testkit.Want(t, home, 0, "select count(*) from throughline.departed")
	testkit.Want(t, left, 0, "select (select count(*) from throughline.accounts) + (select count(*) from messages) + (select count(*) from throughline.work)")
	testkit.Want(t, left, "moved", "select string_agg(why, ' ') from throughline.departed")
	t.Logf("%d moves, %d kills, %d turns, refused by status %v, longest wait %s", moves, kills, turns, refused, longest)
}
