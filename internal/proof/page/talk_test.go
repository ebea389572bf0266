package page

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/arcoscribe/throughline/internal/auth"
	"github.com/arcoscribe/throughline/internal/dev/offline"
	"github.com/arcoscribe/throughline/internal/testkit"
)

// stage is the model of a test, and what its script may ask of the server's side.
type stage struct {
	mu     sync.Mutex
	gates  map[string]chan struct{}
	failed map[string]bool
	rolls  int
}

// play answers a message by its first word: "hold …" waits after three words until the script releases it, "fail …" breaks
// off the first time, "refuse …" is refused the first time, "roll …" is answered by a number that grows, "waver" is refused when
// another reply is asked for, "hostile" and "markdown" are texts. All others have the built-in model's answer.
func (s *stage) play(request *offline.Request) offline.Answer {
	if request.Kind != offline.KindReply {
		return offline.Answer{}
	}
	switch word, _, _ := strings.Cut(request.Current, " "); word {
	case "hold":
		return offline.Answer{Text: heldReply, Gate: s.gate(request.Current), GateAfter: 3}
	case "fail":
		if s.firstTime(request.Current) {
			return offline.Answer{Text: heldReply, Fault: offline.FaultFailed, FaultAfter: 3}
		}
		return offline.Answer{Text: "The second attempt worked."}
	case "refuse":
		if s.firstTime(request.Current) {
			return offline.Answer{Fault: offline.Fault404}
		}
	case "waver":
		if !s.firstTime(request.Current) {
			return offline.Answer{Fault: offline.Fault404}
		}
	case "roll":
		return offline.Answer{Text: s.roll()}
	case "hostile":
		return offline.Answer{Text: hostileReply}
	case "markdown":
		return offline.Answer{Text: markdownReply}
	case "And":
		return offline.Answer{Text: bowReply}
	case "My":
		return offline.Answer{Text: seamReply}
	}
	return offline.Answer{}
}

const heldReply = "One two three four five six seven eight nine ten."

const markdownReply = "A bow needs **rosin**, *little* of it. See [the maker](https://example.com/rosin).\n\n### Steps\n\n1. Loosen the hair.\n2. " +
	"Wipe it:\n\n" +
	"```sh\nwipe --gently bow\n```\n\n| rosin | for |\n|---|---|\n| dark | winter |\n| light | summer |\n\n> Less is more.\n\n- [x] done\n- [ ] to do\n"

const seamReply = "An open seam is a kindness: the glue gave way, so the top did not. Move it from the heater today, loosen the strings by a tone, " +
	"and keep the room at **45 to 55 %** humidity.\n\n" +
	"A luthier closes a seam in an afternoon. Do not play until then; what buzzes now may crack later."

const bowReply = "Less than the cello does. Wood and hair move with the air, so:\n\n1. **Loosen the hair** after each practice, until it just " +
	"hangs.\n2. Wipe the stick; rosin dust keeps the damp.\n" +
	"3. Choose the rosin by the season:\n\n| season | rosin | why |\n|---|---|---|\n| winter | dark, soft | dry air makes hair slip |\n| summer | " +
	"light, hard | warm rosin sticks |\n\n" +
	"> A bow that no longer loosens in January needs shorter hair, not more force."

// hostileReply tries all that might run or fetch something, or confuse what stands around it.
var hostileReply = "<script>window.hurt = 1</script> <img src=x onerror='window.hurt = 2'> <iframe src='javascript:parent.hurt = 3'></iframe>\n\n" +
	"[click](javascript:window.hurt=4) [me](data:text/html,<script>opener.hurt=5</script>) ![picture](http://127.0.0.1:1/tracker.png) <a " +
	"href=\"javascript:window.hurt=6\">link</a>\n\n" +
	"<style>body { display: none }</style> \u202Egnirts desrever\u202D \u2066 \x1b[31m\n\n" + strings.Repeat("[", 3000) + strings.Repeat("*_", 3000) +
	"\n\n" + strings.Repeat("word", 25_000)

func (s *stage) gate(name string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gates == nil {
		s.gates = map[string]chan struct{}{}
	}
	if s.gates[name] == nil {
		s.gates[name] = make(chan struct{})
	}
	return s.gates[name]
}

func (s *stage) firstTime(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed == nil {
		s.failed = map[string]bool{}
	}
	first := !s.failed[name]
	s.failed[name] = true
	return first
}

func (s *stage) roll() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rolls++
	return fmt.Sprintf("Roll %d.", s.rolls)
}

// TestTalk is what a person does in a chat. Its script calls the stage, at STAGE: /release?name=…, /stop and /start.
func TestTalk(t *testing.T) {
	t.Parallel()
	s := &stage{}
	r := newStoppedRig(t, s.play, env{"HTTP_ADDR": testkit.FreeAddress(t)}) // it is left, and comes back
	stop := r.start()
	calls := http.NewServeMux()
	calls.HandleFunc("POST /release", func(_ http.ResponseWriter, request *http.Request) { close(s.gate(request.FormValue("name"))) })
	calls.HandleFunc("POST /stop", func(http.ResponseWriter, *http.Request) { stop() })
	calls.HandleFunc("POST /start", func(http.ResponseWriter, *http.Request) { stop = r.start() })
	stage := httptest.NewServer(calls)
	t.Cleanup(stage.Close)
	expired, err := auth.Mint([]byte(testkit.JWTSecret), r.user, "", time.Minute, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	r.inBrowser("talk.mjs", env{"STAGE": stage.URL, "EXPIRED": expired})
}

// TestChats is how chats begin and are found.
func TestChats(t *testing.T) {
	t.Parallel()
	s := &stage{}
	calls := http.NewServeMux()
	calls.HandleFunc("POST /release", func(_ http.ResponseWriter, request *http.Request) { close(s.gate(request.FormValue("name"))) })
	stage := httptest.NewServer(calls)
	t.Cleanup(stage.Close)
	newRig(t, s.play, longTerm).inBrowser("chats.mjs", env{"STAGE": stage.URL})
}

// TestPast is how messages are edited, answered again, and gone back to.
func TestPast(t *testing.T) {
	t.Parallel()
	newRig(t, (&stage{}).play, longTerm).inBrowser("past.mjs", nil)
}

// TestReading is how long chats are read, and how the page is used without a mouse or with little room.
func TestReading(t *testing.T) {
	t.Parallel()
	newRig(t, nil, nil).inBrowser("reading.mjs", nil)
}
