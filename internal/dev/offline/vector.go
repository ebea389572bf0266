package offline

import (
	"encoding/base64"
	"encoding/binary"
	"math"
)

func encodeVector(vector []float32) string {
	raw, _ := binary.Append(nil, binary.LittleEndian, vector) // cannot fail for numbers of a fixed size
	return base64.StdEncoding.EncodeToString(raw)
}

// embed makes a unit vector of a text: each of its stems is hashed to a dimension and a sign (the hashing trick), so
// texts that share words are close. A text without content words is one feature as a whole.
func embed(text string, dimensions int) []float32 {
	features := contentStems(text)
	if len(features) == 0 {
		features = []string{text}
	}
	vector := make([]float32, dimensions)
	for _, feature := range features {
		h := hash(feature)
		vector[h%uint64(dimensions)] += 1 - 2*float32(h>>63)
	}
	length := 0.0
	for _, v := range vector {
		length += float64(v) * float64(v)
	}
	if length == 0 { // all features cancelled out
		vector[0], length = 1, 1
	}
	for i := range vector {
		vector[i] /= float32(math.Sqrt(length))
	}
	return vector
}
