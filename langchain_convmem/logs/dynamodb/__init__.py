"""A message log in a DynamoDB table, and plain maps as attribute values."""

from langchain_convmem.logs.dynamodb.log import DynamoDBLog
from langchain_convmem.logs.dynamodb.table import table_definition
from langchain_convmem.logs.dynamodb.values import to_dynamodb

__all__ = ["DynamoDBLog", "table_definition", "to_dynamodb"]
