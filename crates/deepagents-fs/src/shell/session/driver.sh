exec 8<&0 9>&1 </dev/null
while IFS= read -r __session_mark <&8 && IFS= read -r __session_lines <&8; do
  __session_text=
  while [ "$__session_lines" -gt 0 ]; do
    IFS= read -r __session_line <&8 || exit 0
    __session_text="$__session_text$__session_line
"
    __session_lines=$((__session_lines - 1))
  done
  command eval "$__session_text" 8<&- 9>&-
  command printf '\036%s:%s\036' "$__session_mark" "$?" >&9
done
