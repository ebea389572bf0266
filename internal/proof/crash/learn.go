package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// What every message says to remember, by its number: most another thing; some the same thing as others of the same user,
// and some something that contradicts what they said before.
const (
	sayingKinds = 5
	sameThings  = 4
)

var (
	towns = []string{"Lyon", "Porto", "Ghent", "Turin", "Graz", "Bergen", "Basel"}
	// doings are what a user does in one town at a time.
	doings = []string{"live", "work", "swim", "sing"}
)

// saying returns the sentence of a message that is to be remembered.
func saying(n int) string {
	switch n % sayingKinds {
	case 0:
		return fmt.Sprintf("I repair %s.", []string{"clocks", "violins", "atlases", "barometers"}[n/sayingKinds%sameThings])
	case 1:
		return fmt.Sprintf("I %s in %s.", doings[n/sayingKinds/len(towns)%len(doings)], towns[n/sayingKinds%len(towns)])
	}
	return fmt.Sprintf("I keep the lantern number %d.", n)
}

var (
	sayings  = regexp.MustCompile(`I (repair \w+|(?:live|work|swim|sing) in \w+|keep the lantern number \d+)\.`)
	newLine  = regexp.MustCompile(`^(?:[-*] )?([UA]\d+)(?: \[[^\]]*\])?: ?(.*)$`)
	inTown   = regexp.MustCompile(`\b(?:lives|works|swims|sings) in\b`)
	settled  = regexp.MustCompile(`^(?:[-*] )?([CM]\d+)(?: \[[^\]]*\])?: ?(.*)$`)
	thirdOne = strings.NewReplacer(
		"I repair",
		"The user repairs",
		"I live",
		"The user lives",
		"I work",
		"The user works",
		"I swim",
		"The user swims",
		"I sing",
		"The user sings",
		"I keep",
		"The user keeps",
	)
)

// extractAll is a model that makes a memory of every message: what a user says, and also what the assistant said, which nothing
// may be made of.
func extractAll(input string) string {
	facts := []map[string]any{}
	propose := func(fact, quote, alias string) {
		facts = append(facts, map[string]any{
			"fact": fact, "type": "fact", "confidence": 0.9, "horizon": "lasting", "durable": false, "evidence": []string{alias}, "quote": quote,
			"valid_from": nil, "valid_to": nil, "replaces": nil, "relationships": []any{},
			"entities": []map[string]string{{"name": quote[strings.LastIndex(quote, " ")+1 : len(quote)-1], "type": "other"}},
		})
	}
	_, input, _ = strings.Cut("\n"+input, "\nNEW MESSAGES")
	for line := range strings.SplitSeq(input, "\n") {
		found := newLine.FindStringSubmatch(line)
		if found == nil {
			continue
		}
		if said := sayings.FindString(found[2]); said != "" {
			propose(thirdOne.Replace(said), said, found[1])
		} else if mark := marks.FindString(found[2]); strings.HasPrefix(mark, "said") {
			propose("The user has the number "+mark+".", found[2], found[1])
		}
	}
	return encoded(map[string]any{"facts": facts})
}

// consolidate is a model that closes the town where a user did the same before, and adds everything else.
func consolidate(input string) string {
	var candidates, memories [][]string
	for line := range strings.SplitSeq(input, "\n") {
		if found := settled.FindStringSubmatch(line); found != nil && found[1][0] == 'C' {
			candidates = append(candidates, found)
		} else if found != nil {
			memories = append(memories, found)
		}
	}
	decisions := []map[string]any{}
	for _, c := range candidates {
		decision := map[string]any{"candidate": c[1], "action": "ADD", "memory": nil, "merged": nil, "reason": "new"}
		for _, m := range memories {
			if doing := inTown.FindString(c[2]); doing != "" && doing == inTown.FindString(m[2]) {
				decision["action"], decision["memory"] = "DELETE", m[1]
			}
		}
		decisions = append(decisions, decision)
	}
	return encoded(map[string]any{"decisions": decisions})
}

func encoded(value any) string {
	raw, _ := json.Marshal(value) // texts and lists
	return string(raw)
}

// editMemory changes a town that the user is remembered for, often while a model is deciding on it.
func (t *talker) editMemory(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	server := t.anyServer()
	response, err := t.Do(ctx, http.MethodGet, "http://"+server+"/v1/memories?limit=100&status=active", nil, "")
	if err != nil {
		return
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	var listed struct {
		Memories []struct {
			ID, Content string
			Edited      bool
		}
	}
	if response.StatusCode != http.StatusOK || json.NewDecoder(response.Body).Decode(&listed) != nil {
		return // the server, or Postgres, is away
	}
	for _, m := range listed.Memories {
		if m.Edited || !inTown.MatchString(m.Content) {
			continue
		}
		body := bytes.TrimSpace([]byte(encoded(map[string]string{"content": strings.TrimSuffix(m.Content, ".") + ", near the river."})))
		if answer, err := t.Do(ctx, http.MethodPatch, "http://"+server+"/v1/memories/"+m.ID, body, ""); err == nil {
			_ = answer.Body.Close() // whatever came of it, the checks see
		}
		return
	}
}
