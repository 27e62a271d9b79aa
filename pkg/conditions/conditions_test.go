package conditions

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSet(t *testing.T) {
	first, later := metav1.Unix(1, 0), metav1.Time{Time: time.Unix(2, 0)}
	var list []metav1.Condition
	Set(&list, 1, first, True("Ready", "Ready", "it serves"))
	Set(&list, 2, later, True("Ready", "Ready", "it still serves"))
	assert.Equal(t, first, list[0].LastTransitionTime, "the time moves with the status only")
	assert.Equal(t, int64(2), list[0].ObservedGeneration)
	Set(&list, 2, later, False("Ready", "Gone", ""))
	assert.Equal(t, later, list[0].LastTransitionTime)
	assert.False(t, IsTrue(list, "Ready"))
}

func TestLongMessagesAreCutAtARune(t *testing.T) {
	var list []metav1.Condition
	Set(&list, 1, metav1.Now(), Unknown("Booted", "R", strings.Repeat("ä", maxMessage)))
	assert.LessOrEqual(t, len(list[0].Message), maxMessage)
	assert.True(t, utf8.ValidString(list[0].Message))
}
