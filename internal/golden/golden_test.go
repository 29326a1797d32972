package golden

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRunComparesTheOutputOfEachCommand(t *testing.T) {
	Run(t, "testdata/*.txt", func() func(*testing.T, Command) string {
		sum := 0
		return func(t *testing.T, c Command) string {
			require.Equal(t, "add", c.Name)
			sum += c.Int(t, "by", 0)
			for _, word := range append(c.Operands, c.Lines...) {
				n, err := strconv.Atoi(word)
				require.NoError(t, err)
				sum += n
			}
			return strconv.Itoa(sum)
		}
	})
}

func TestReplayKeepsCommentsAndReplacesOutput(t *testing.T) {
	got := replay(t, "# a comment\n\nsay a\n----\nold\n\nsay b\n", func(_ *testing.T, c Command) string { return strings.ToUpper(c.Operands[0]) })
	require.Equal(t, "# a comment\n\nsay a\n----\nA\n\nsay b\n----\nB\n", got)
}

func TestDifferenceShowsOnlyWhatDiffers(t *testing.T) {
	require.Equal(t, "line 2, want:\nb\ngot:\nx\ny", difference("a\nb\nc\n", "a\nx\ny\nc\n"))
}

func ExampleParse() {
	c := Parse("plan switch prompt=8\nblock 0")
	fmt.Println(c.Name, c.Operands, c.Values["prompt"], c.Lines)
	// Output: plan [switch] 8 [block 0]
}
