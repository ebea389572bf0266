package text

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Of a long text both ends are shown, and about as many tokens are said to be left out as are. A text with long tokens, and one without
// spaces, is cut as well.
func TestLongTextsAreClippedByTheirEnds(t *testing.T) {
	t.Parallel()
	note := regexp.MustCompile(`(?s)^(.+) \[… (\d+) tokens omitted …\] (.+)$`)
	for name, unit := range map[string]string{
		"English": "The bow needs rosin. ", "Hindi": "वायलिन का पाठ कल है। ", "Japanese": "弓には松脂が必要です。",
		"JSON":         `{"id":17,"name":"bow"},`,
		"a long token": strings.Repeat(" ", 60) + "x", "emoji": "👩\u200d👧",
	} {
		whole := strings.Repeat(unit, 60_000/len(unit))
		for _, limit := range []int{40, 400, 1500} {
			cut, tokens := Clip(whole, limit)
			found := note.FindStringSubmatch(cut)
			if !assert.Lenf(t, found, 4, "%s, %d: %q", name, limit, cut[:min(200, len(cut))]) {
				continue
			}
			omitted, _ := strconv.Atoi(found[2])
			all := Tokens(whole)
			trimmed := strings.TrimSpace(whole)
			assert.Truef(t, strings.HasPrefix(trimmed, found[1]) && strings.HasSuffix(trimmed, found[3]), "%s, %d: not its ends", name, limit)
			assert.Truef(t, tokens == Tokens(cut) && tokens <= limit && tokens >= limit*2/3, "%s, %d: %d tokens", name, limit, tokens)
			assert.InDeltaf(t, all-tokens, omitted, float64(all)/20+20, "%s, %d: omitted of %d", name, limit, all)
		}
	}
}
