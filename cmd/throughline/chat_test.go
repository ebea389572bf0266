package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// screen is a program on a terminal of its own.
type screen struct {
	t    *testing.T
	cmd  *exec.Cmd
	keys io.WriteCloser
	log  *testkit.Log
	seen int // of the output, in bytes
}

// Keys.
const (
	enter, ctrlC, ctrlD, arrowUp = "\r", "\x03", "\x04", "\x1b[A"
)

// sit starts a program on a terminal, which script makes for it.
func sit(t *testing.T, cmd *exec.Cmd) *screen {
	t.Helper()
	var line strings.Builder // for a shell
	for _, arg := range cmd.Args {
		line.WriteString(" '" + strings.ReplaceAll(arg, "'", `'\''`) + "'")
	}
	on := exec.Command("script", "--quiet", "--flush", "--return", "--command", "stty rows 40 cols 200; exec"+line.String(), os.DevNull)
	s := &screen{t: t, cmd: on, log: &testkit.Log{}}
	on.Dir, on.Env, on.Stdout = cmd.Dir, cmd.Env, s.log
	keys, err := on.StdinPipe()
	require.NoError(t, err)
	s.keys = keys
	require.NoError(t, on.Start())
	t.Cleanup(func() {
		_ = on.Process.Kill() // usually gone already
		_ = on.Wait()
		if t.Failed() {
			t.Logf("the screen: %q", s.log.String())
		}
	})
	return s
}

// until waits for a text in what was printed since the last call, and gives what came before it.
func (s *screen) until(text string) string {
	before, found := "", false
	testkit.Eventually(s.t, "the screen shows "+text, func() bool {
		before, _, found = strings.Cut(s.log.String()[s.seen:], text)
		return found
	})
	s.seen += len(before) + len(text)
	return before
}

func (s *screen) press(keys string) {
	_, err := io.WriteString(s.keys, keys)
	require.NoError(s.t, err)
}

// say types a line when the prompt is there.
func (s *screen) say(line string) {
	s.until("you> ")
	s.press(line + enter)
	s.until("\n") // that of enter
}

// ends waits for the program's end.
func (s *screen) ends(code int) {
	_ = s.cmd.Wait() // the exit code says it
	got := s.cmd.ProcessState.ExitCode()
	assert.Truef(s.t, got == code, "it ended with %d: %s", got, s.log)
}

// leave ends the chat at its prompt.
func (s *screen) leave() {
	s.until("you> ")
	s.press(ctrlD)
	s.ends(exitDone)
}

// talkRig is a rig with a server.
type talkRig struct {
	*rig
	server *process
	talker env
}

func newTalkRig(t *testing.T, script testkit.Script) *talkRig {
	t.Helper()
	r := newRig(t, script)
	server := r.start(nil, "serve")
	return &talkRig{rig: r, server: server, talker: env{"THROUGHLINE_TOKEN": r.token, "TERM": "xterm"}}
}

// atServer names the server behind the flags of a command that names none.
func (r *talkRig) atServer(args []string) []string {
	if r.server == nil || slices.Contains(args, "--url") {
		return args
	}
	end := len(args) // of the flags
	if i := slices.Index(args, "--"); i >= 0 {
		end = i
	}
	return slices.Insert(slices.Clone(args), end, "--url", r.server.Base)
}

// program is a command of the user, which is to be started.
func (r *talkRig) program(args ...string) *exec.Cmd {
	return program(r.t, r.talker, r.atServer(args)...)
}

// finish runs a command of the user to its end.
func (r *talkRig) finish(args ...string) (code int, stdout, stderr string) {
	return finish(r.t, r.talker, r.atServer(args)...)
}

func (r *talkRig) stored() string {
	return testkit.Ask[string](r.t, r.pool, "select coalesce(string_agg(role || ' ' || status || ' ' || content, '|' order by chat_id, seq), '') from messages")
}

func TestChatOnATerminal(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, testkit.InOrder(offline.Answer{Text: "Grüße \x1b]0;title\x07\x1b[31maus\x1b[0m 世界"}, offline.Answer{Text: "And again."}))
	s := sit(t, r.program("chat"))
	s.say("/nothing")
	s.until("there is no command /nothing; /help lists them")
	s.say("/save It")
	s.until("there is no chat yet")
	s.say("Hello.")
	assert.Equal(t, "Grüße aus ", s.until("世界"), "the terminal")
	s.say("/save A first chat")
	s.until("This chat is called A first chat. Everything that was said was stored already.")
	s.say("//slash")
	s.until("And again.")
	s.say("/sessions")
	s.until("2 turns  A first chat")
	s.say("/history 2")
	s.until("you> /slash\r\nreply> And again.")
	s.say("/pin 2")
	s.until("you (pinned)> /slash")
	s.until("This chat's memory_strategy is summary: its pins count once that is hybrid.")
	s.say("/pin")
	s.until("reply (pinned)> And again.")
	s.say("/unpin 2")
	s.until("you> /slash")
	s.say("/pin 5")
	s.until("this chat has 4 messages")
	s.say("/pin me")
	s.until("count back 1 to 200 messages")
	s.say("/search again")
	s.until("A first chat: assistant\r\n     And again")
	s.say("/new")
	s.until("begins a new chat")
	s.say("/load 1")
	s.until("A first chat")
	s.say("/memory")
	s.until("summary, ")
	s.until("And again.")
	s.say("/clear")
	s.until("The model starts afresh.")
	s.say("/export chat.txt")
	s.until("wants a file that ends in")
	s.say("/export chat.md")
	s.until("Written to chat.md.")
	s.say("/nonsense")
	s.until("there is no command /nonsense")
	s.until("you> ")
	s.press("not sent" + ctrlC)
	s.until("^C")
	s.leave()
	if raw, err := os.ReadFile(filepath.Join(s.cmd.Dir, "chat.md")); err != nil || !strings.Contains(string(raw), "And again.") {
		t.Errorf("%q, %v", raw, err)
	}
	got := r.stored()
	assert.Truef(t, strings.Count(got, "|") == 3 && strings.Contains(got, "user complete /slash|assistant complete And again."),
		"stored is %q", got)
	assert.Equal(t, "And again.", testkit.Ask[string](t, r.pool, "select string_agg(content, '|') from messages where pinned"),
		"pinned")
	kept := filepath.Join(s.cmd.Dir, ".local", "state", "throughline", "history")
	info, err := os.Stat(kept)
	require.Truef(t, err == nil && info.Mode().Perm() == 0o600, "%v, %v", info, err)
	again := r.program("chat") // what was typed comes back with the arrow keys
	again.Dir, again.Env = s.cmd.Dir, s.cmd.Env
	second := sit(t, again)
	second.until("you> ")
	second.press(arrowUp + "2" + enter)
	second.until("there is no command /nonsense2")
	second.leave()
	raw, _ := os.ReadFile(kept)
	assert.Truef(t, strings.HasPrefix(string(raw), "/nothing\n/save It\nHello.\n") && !strings.Contains(string(raw), "not sent"),
		"kept is %q", raw)
}

// Ctrl-C in the middle of a reply stops it, keeps what was said, and the conversation goes on.
func TestChatStopsAReply(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, endless)
	s := sit(t, r.program("chat"))
	s.say("Endless.")
	s.until(strings.TrimSpace(heard))
	s.press(ctrlC)
	s.until("(stopped; what was said is kept)")
	s.say("/history")
	s.until("(cancelled)")
	s.leave()
	assert.Equal(t, "user complete Endless.|assistant cancelled "+heard, r.stored(), "stored")
}

func TestChatForgets(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, testkit.InOrder(offline.Answer{Text: "Noted."}))
	s := sit(t, r.program("chat"))
	s.say("A secret.")
	s.until("Noted.")
	for _, answer := range []string{"n" + enter, enter, ctrlC} {
		s.say("/forget")
		s.until("for good? [y/N] ")
		s.press(answer)
		s.until("Nothing was deleted.")
	}
	assert.Contains(t, r.stored(), "A secret.", "it is gone")
	s.say("/forget")
	s.until("for good? [y/N] ")
	s.press("y" + enter)
	s.until("The chat is gone.")
	n := testkit.Ask[int](t, r.pool, "select count(*) from chats")
	assert.Truef(t, n == 0, "%d chats are left", n)
	s.leave()
}

// An expired chat is brought back when its owner wants it.
func TestChatOffersToBringBack(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, testkit.InOrder(offline.Answer{Text: "Noted."}))
	chatID := r.server.Say("", "Remember me.").ChatID
	testkit.Exec(t, r.pool, "update chats set ttl_hours = 1, created_at = now() - interval '1 day', last_message_at = now() - interval '2 hours'")
	s := sit(t, r.program("chat"))
	s.say("/load " + chatID)
	s.until("This chat has expired. Bring it back? [y/N] ")
	s.press(enter)
	s.say("/load " + chatID)
	s.until("This chat has expired. Bring it back? [y/N] ")
	s.press("yes" + enter)
	s.until("you> Remember me.\r\nreply> Noted.")
	s.leave()
	assert.False(t, testkit.Ask[bool](t, r.pool, "select expires_at <= now() from chats"), "it is expired")
}

func TestChatInAPipe(t *testing.T) {
	t.Parallel()
	r := newTalkRig(t, testkit.InOrder(offline.Answer{Text: "One\nreply."}))
	cmd := r.program("chat")
	cmd.Stdin = strings.NewReader("two\nlines\n")
	out, err := cmd.Output()
	assert.Truef(t, err == nil && string(out) == "One\nreply.\n", "%q, %v", out, err)
	assert.Equal(t, "user complete two\nlines|assistant complete One\nreply.", r.stored(), "stored")
	for _, wrong := range []struct {
		args  []string
		input string
		says  string
	}{
		{[]string{"chat"}, " ", "content"},
		{[]string{"chat", "--model", "nobody"}, "Hello.", "unknown_model_variant"},
		{[]string{"chat", "--chat", "00000000-0000-4000-8000-00000000dead"}, "Hello.", "chat_not_found"},
		{[]string{"chat", "--url", "http://127.0.0.1:1"}, "Hello.", "no server answers at http://127.0.0.1:1"},
		{[]string{"chat", "--token", "nonsense"}, "Hello.", "bad_jwt"},
	} {
		cmd := r.program(wrong.args...)
		cmd.Stdin = strings.NewReader(wrong.input)
		var errs strings.Builder
		cmd.Stderr = &errs
		out, err := cmd.Output()
		assert.Truef(t, err != nil && cmd.ProcessState.ExitCode() == exitFailed && len(out) == 0 && strings.Contains(errs.String(), wrong.says),
			"%v: %q, %q, %v", wrong.args, out, errs.String(), err)
	}
}
