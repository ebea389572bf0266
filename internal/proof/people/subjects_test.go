package people

import "testing"

func TestSubjectsAreFarFromEachOther(t *testing.T) {
	t.Parallel()
	s := Subjects{Words: []string{"spinnaker", "gherkin"}}
	cosine := func(a, b string) (sum float32) {
		other := s.Vector(b)
		for n, number := range s.Vector(a) {
			sum += number * other[n]
		}
		return sum
	}
	if same := cosine("a red spinnaker", "my spinnaker is torn"); same < .6 {
		t.Errorf("one subject: %.2f", same)
	}
	if two := cosine("a red spinnaker", "a gherkin"); two > .3 {
		t.Errorf("two subjects: %.2f", two)
	}
	if none := cosine("a red spinnaker", "the train is late"); none > .3 {
		t.Errorf("a subject and none: %.2f", none)
	}
	seen := map[string]bool{}
	for n := range 20 {
		seen[s.Of(n)] = true
	}
	if len(seen) != len(s.Words) {
		t.Errorf("a conversation comes to %d subjects", len(seen))
	}
}
