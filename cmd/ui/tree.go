package ui

import (
	"bytes"
	"strings"
)

// tree is a set of words that finds the longest one at a place of a text. Adding a word
// costs its length, however many there are. The zero value is empty.
type tree struct {
	label    string // text between the parent and here
	word     bool   // a word of the set ends here
	firsts   []byte // first bytes of the labels of children
	children []*tree
}

// add adds a word. It keeps the text of word in memory.
func (t *tree) add(word string) {
	for word != "" {
		i := bytes.IndexByte(t.firsts, word[0])
		if i < 0 {
			t.firsts = append(t.firsts, word[0])
			t.children = append(t.children, &tree{label: word, word: true})
			return
		}
		child := t.children[i]
		same := 1
		for same < len(word) && same < len(child.label) && word[same] == child.label[same] {
			same++
		}
		if same < len(child.label) {
			rest := *child
			rest.label = child.label[same:]
			child = &tree{label: child.label[:same], firsts: []byte{rest.label[0]}, children: []*tree{&rest}}
			t.children[i] = child
		}
		t, word = child, word[same:]
	}
	t.word = true
}

// longest returns the length of the longest word with which a text begins and that ok
// accepts; 0: none. ok may be nil.
func (t *tree) longest(text string, ok func(length int) bool) (length int) {
	for at := 0; at < len(text); {
		i := bytes.IndexByte(t.firsts, text[at])
		if i < 0 || !strings.HasPrefix(text[at:], t.children[i].label) {
			break
		}
		t = t.children[i]
		at += len(t.label)
		if t.word && (ok == nil || ok(at)) {
			length = at
		}
	}
	return length
}
