package offline

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

func encodeVector(vector []float32) string {
	raw, _ := binary.Append(nil, binary.LittleEndian, vector) // cannot fail for numbers of a fixed size
	return base64.StdEncoding.EncodeToString(raw)
}

// What a feature of a text weighs in its vector.
const (
	weightContent = 1.0
	weightStop    = 0.05
	weightPart    = 0.15
)

// embed makes a unit vector of a text: its words and the parts of its words, hashed into the
// dimensions with a sign (the hashing trick). Texts that share words are close, word forms somewhat.
func embed(text string, dimensions int) []float32 {
	sum := make([]float64, dimensions)
	tokens := words(text)
	for _, word := range tokens {
		if stopWords[word] {
			spread(sum, word, weightStop)
			continue
		}
		spread(sum, stem(word), weightContent)
		for _, part := range trigrams(word) {
			spread(sum, part, weightPart)
		}
	}
	if len(tokens) == 0 {
		spread(sum, text, weightContent)
	}
	return unit(sum)
}

// spread adds a feature at several places, so that two features rarely meet at all of them.
func spread(sum []float64, feature string, weight float64) {
	for n := range 4 {
		h := hash(fmt.Sprint(n, feature))
		sign := 1.0
		if h>>63 == 1 {
			sign = -1
		}
		sum[h%uint64(len(sum))] += sign * weight
	}
}

func trigrams(word string) []string {
	runes := slices.Concat([]rune{'^'}, []rune(word), []rune{'$'})
	var parts []string
	for i := 0; i+3 <= len(runes); i++ {
		parts = append(parts, string(runes[i:i+3]))
	}
	return parts
}

// unit scales to length 1. Features that cancelled out leave the first axis.
func unit(sum []float64) []float32 {
	length := 0.0
	for _, v := range sum {
		length += v * v
	}
	vector := make([]float32, len(sum))
	if length == 0 {
		vector[0] = 1
		return vector
	}
	for i, v := range sum {
		vector[i] = float32(v / math.Sqrt(length))
	}
	return vector
}
