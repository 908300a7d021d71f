"""What a record of a file is: a text, a conversation, a preference, a prompt. One file per form."""
