package kit

import "github.com/arcoscribe/throughline/internal/proof/figures"

// ReplaceInDocument is figures.Replace.
func ReplaceInDocument(path, name, content string) error { return figures.Replace(path, name, content) }
