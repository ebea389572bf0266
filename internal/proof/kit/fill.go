package kit

import (
	"crypto/md5" //nolint:gosec // names rows, protects nothing
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// InsertUsers stores as many users as its argument says, with the ids ID("user", 0) and so on.
const InsertUsers = `insert into auth.users (id, aud, role, created_at, updated_at)
	select md5('user-' || n)::uuid, 'authenticated', 'authenticated', now(), now() from generate_series(0, $1::int - 1) n`

// ID returns the id of a thing by its kind and number. In SQL that is md5('kind-' || number)::uuid.
func ID(kind string, n int) uuid.UUID {
	return md5.Sum([]byte(kind + "-" + strconv.Itoa(n))) //nolint:gosec // see the import
}

// NewID returns an id as the server makes them.
func NewID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// Sentences are what the messages of a filled database consist of.
var Sentences = []string{
	"The second movement still falls apart around bar forty, where the shift comes too early.",
	"I practised the scales with a metronome for twenty minutes before anything else today.",
	"My teacher thinks the bow arm is too stiff and wants long notes on open strings again.",
	"We could move the lesson to Thursday, since the hall is free then and I am not at work.",
	"A slower tempo helps, but the phrase loses its direction when I think about every note.",
	"There is a concert in six weeks, and the programme is not quite settled yet.",
	"Record yourself once a week and write down one thing that became better and one that did not.",
	"The left hand is fine; what gets tired is the shoulder, mostly in the last ten minutes.",
}

// Texts is how many different messages Text makes.
const Texts = 64

// Text returns a message of some 60 tokens, the same for the same number.
func Text(n int) string {
	const length = 4
	chosen := make([]string, length)
	for i := range chosen {
		chosen[i] = Sentences[(n*3+i*5+n/8)%len(Sentences)]
	}
	return strings.Join(chosen, " ")
}
