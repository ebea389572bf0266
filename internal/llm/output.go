package llm

import (
	"hash/maphash"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// partGap separates the parts of an output: each is a text of its own, such as a remark before a search and the
// answer after it.
const partGap = "\n\n"

// place is where a part is in a model's output: in which item, and where within it. Servers that leave the numbers
// out have one place.
type place struct{ item, content int }

// maxPlace bounds the numbers of parts that are told apart.
const maxPlace = 1 << 20

// output puts a reply together from its parts. A server may send a part in pieces, as a whole, or both: then it
// repeats it when the part, its item and the response end. The zero output is empty.
type output struct {
	places []place
	// sums has a sum of each part's text but the last, whose text is summed up in sum.
	sums []uint64
	sum  maphash.Hash
	// announced is whether the next text begins a part, wherever it is said to be.
	announced bool
}

func (o *output) announce() { o.announced = true }

// piece takes the next text of a part. It returns what that adds to the reply.
func (o *output) piece(at place, text string) string {
	if text == "" {
		return ""
	}
	gap := ""
	if begun := len(o.places) > 0; !begun || o.announced || o.places[len(o.places)-1] != at {
		if begun {
			gap = partGap
			o.sums = append(o.sums, o.sum.Sum64())
			o.sum.Reset()
		}
		o.places, o.announced = append(o.places, at), false
	}
	_, _ = o.sum.WriteString(text) // it never fails
	return gap + text
}

// whole takes a part's whole text unless it was taken before, also under another number: some servers number the
// pieces and the whole differently.
func (o *output) whole(at place, text string) string {
	if !o.announced && slices.Contains(o.places, at) || o.hasText(text) {
		return ""
	}
	return o.piece(at, text)
}

func (o *output) hasText(text string) bool {
	sum := maphash.String(o.sum.Seed(), text)
	return sum == o.sum.Sum64() || slices.Contains(o.sums, sum)
}

// item takes the texts of an item that has ended.
func (o *output) item(number int, item gjson.Result) string {
	if item.Get("type").String() != "message" {
		return ""
	}
	var added strings.Builder
	for n, part := range item.Get("content").Array() {
		added.WriteString(o.whole(place{number, n}, partText(part)))
	}
	return added.String()
}

// items takes the texts of a response that has ended.
func (o *output) items(items gjson.Result) string {
	if len(o.places) > 0 {
		return "" // they were all sent before
	}
	var added strings.Builder
	for n, item := range items.Array() {
		added.WriteString(o.item(n, item))
	}
	return added.String()
}

// partText returns the text of a part of a message, "" if it is none of the reply.
func partText(part gjson.Result) string {
	if field := textField(part); field != "" {
		return storable(part.Get(field).String())
	}
	return ""
}

// textField names the field of a part that has its text. A refusal is what the model says, too. Other kinds of parts
// are no text of the reply.
func textField(part gjson.Result) string {
	switch part.Get("type").String() {
	case "output_text":
		return "text"
	case "refusal":
		return "refusal"
	}
	return ""
}
