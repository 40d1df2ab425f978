from seq2seq.files import replace_text as replace_text, sync as sync  # noqa: I001  # until no module imports it
