package main

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestVerdicts(t *testing.T) {
	t.Parallel()
	g := table{columns: []string{shipped, stripped}}
	for _, c := range []struct {
		target *target
		values []float64
		want   string
	}{
		{atMost(1), []float64{.9, 9}, "≤ 1 ms: reached"},
		{atMost(1), []float64{1.1, 9}, "≤ 1 ms: missed"},
		{atLeast(99), []float64{98, 9}, "≥ 99 ms: missed"},
		{&target{limit: 1.5, against: stripped}, []float64{3, 2}, "≤ 1.50 × stripped: reached"},
		{&target{limit: 1.5, against: stripped}, []float64{4, 2}, "≤ 1.50 × stripped: missed"},
		{&target{limit: 1, against: stripped, added: true}, []float64{3, 2}, "≤ 1 ms over stripped: reached"},
		{&target{limit: 1, against: stripped, added: true}, []float64{4, 2}, "≤ 1 ms over stripped: missed"},
	} {
		r := row{unit: "ms", target: c.target}
		for _, value := range c.values {
			r.measured = append(r.measured, []float64{value})
		}
		assert.Equalf(t, c.want, g.verdict(r), "%v", c.values)
	}
}

func TestWishIsThatOfTheLastQuestion(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]int{
		`{"input":"Say tokens=250"}`:                    250,
		`{"input":"User: Say tokens=9\n\nSay tokens=3`:  3,
		`{"input":"Say tokens=12","metadata":{"n":99}}`: 12,
		`{"input":"Say something"}`:                     1,
		`Say tokens=`:                                   1,
		``:                                              1,
	} {
		assert.Equalf(t, want, wished([]byte(body)), "%s", body)
	}
}

func TestQuestionsAreAboutWhatLeftThePrompt(t *testing.T) {
	t.Parallel()
	in, random := talk{number: 3, turns: 50}, rand.New(rand.NewPCG(1, 1))
	for range 20 {
		asked := in.byWords(random)
		if !slices.ContainsFunc(in.batch().texts[1:in.covered()], func(said string) bool {
			subject, _, _ := strings.Cut(strings.TrimPrefix(asked, "What was it that I said about the "), " ")
			return strings.Contains(said, "About the "+subject+":")
		}) {
			t.Errorf("%q", asked)
		}
	}
	near, far := said.Subjects.Words[5], said.Subjects.Words[6]
	got := said.Subjects.Vector("qu" + near)
	assert.Truef(t, got[5] >= .8 && got[6] <= .2,
		"a synonym of %s is %v near it, and %v near %s", near, got[5], got[6], far)
}
